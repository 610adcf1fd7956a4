"""What a person sees of an experiment while it runs: one line a running cell, redrawn in place on a terminal."""

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from swarmd.experiment.running.cost import duration

# How often the lines are printed where nothing can be redrawn.
EVERY_S = 10.0
_BAR = 20


class Display:
    """Finished cells stay on the screen, running ones are redrawn; without a terminal these are printed every ten seconds."""

    def __init__(
        self,
        out: TextIO | None = None,
        *,
        terminal: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._out = out or sys.stdout
        self._terminal = self._out.isatty() if terminal is None else terminal
        self._clock = clock
        self._num_lines = 0
        self._next = clock() + EVERY_S

    def say(self, line: str) -> None:
        """A line that stays."""
        self._draw([line], stay=True)

    def show(self, lines: Sequence[str]) -> None:
        """The newest state of what runs."""
        if self._terminal:  # a line that wraps could not be drawn over
            width = shutil.get_terminal_size().columns - 1
            self._draw([line[:width] for line in lines], stay=False)
        elif self._clock() >= self._next:
            self._next = self._clock() + EVERY_S
            self._print("\n".join(lines))

    def _draw(self, lines: Sequence[str], *, stay: bool) -> None:
        up = f"\x1b[{self._num_lines}F\x1b[J" if self._terminal and self._num_lines else ""
        self._print(up + "\n".join(lines))
        self._num_lines = 0 if stay else len(lines)

    def _print(self, text: str) -> None:
        print(text, file=self._out, flush=True)


def cell_line(label: str, round_done: int, rounds: int, seconds: float) -> str:
    done = round(_BAR * round_done / max(1, rounds))
    return f"  {label:<34} {'█' * done}{'·' * (_BAR - done)} {round_done:>5}/{rounds} rounds  {duration(seconds):>7}"


def summary_line(num_done: int, num_cells: int, elapsed_s: float, remaining_s: float) -> str:
    return f"{num_done} of {num_cells} cells, {duration(elapsed_s)} gone, about {duration(remaining_s)} to go"
