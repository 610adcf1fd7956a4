"""Runs cells, some at a time, within a budget; what was done before is kept, and Ctrl-C leaves no process behind."""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from swarmd.errors import DiskFull, StateError
from swarmd.experiment.cell import Cell
from swarmd.experiment.running.cell_process import PATIENCE_S, CellProcess, Command, cell_command
from swarmd.experiment.running.cost import Pace, duration
from swarmd.experiment.running.progress import Display, cell_line, summary_line
from swarmd.experiment.swarms.reaper import Reaper
from swarmd.files.lock import locked_file
from swarmd.files.owned import make_own, require_own_content

# A record of a round is about 1 KB; a cell keeps besides its log and evaluations.
ROUND_BYTES, CELL_BYTES, RESERVE_BYTES = 2000, 2**20, 200 * 2**20
# A cell that is expected to need more than its share of the budget is not started; estimates are off by about so much.
SAFETY = 1.1
_TICK_S = 0.2


@dataclass
class Outcome:
    """What a run came to; cells go by their labels."""

    done: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    not_started: list[str] = field(default_factory=list)
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        """0: everything is done; 1: a cell failed; 75: the budget ended first, the same command goes on; 130: interrupted."""
        if self.interrupted:
            return 130
        return 1 if self.failed else 75 if self.stopped or self.not_started else 0


@dataclass
class Run:
    """One run of `waiting` cells below `root`.

    Attributes:
        jobs: cells at a time.
        deadline_s: of the monotonic clock; nothing is started that is not expected to end before it, running cells get it.
        command: what runs a cell, for tests.
        inherited: file descriptors that every cell keeps open.
    """

    root: Path
    waiting: list[Cell]
    pace: Pace
    display: Display
    jobs: int
    deadline_s: float | None = None
    command: Command = cell_command
    inherited: tuple[int, ...] = ()
    clock: Callable[[], float] = time.monotonic
    outcome: Outcome = field(default_factory=Outcome)
    running: list[CellProcess] = field(default_factory=list)

    def execute(self) -> Outcome:
        """Run all that fits. Ctrl-C ends the running cells, a second one at once."""
        num_cells, began_s = len(self.waiting), self.clock()
        with Reaper() as reaper:
            try:
                while self.running or self.waiting:
                    self._start_what_fits(reaper)
                    if not self.running:
                        break
                    time.sleep(_TICK_S)
                    self._collect()
                    self._show(num_cells, began_s)
            except KeyboardInterrupt:
                self.outcome.interrupted = True
                self._stop_all()
            finally:
                for process in self.running:
                    process.end(0.0)
        self.outcome.not_started = [cell.label for cell in self.waiting]
        return self.outcome

    def _start_what_fits(self, reaper: Reaper) -> None:
        """In their order: a later, shorter cell does not overtake, so that whole seeds are left."""
        while self.waiting and len(self.running) < self.jobs and self.fits(self.waiting[0]):
            cell = self.waiting.pop(0)
            self.running.append(
                CellProcess(
                    cell,
                    self.root,
                    deadline_s=self._unix_deadline(),
                    reaper=reaper,
                    inherited=self.inherited,
                    command=self.command,
                )
            )

    def fits(self, cell: Cell) -> bool:
        """Whether a cell that is started now is expected to end in time."""
        return (
            self.deadline_s is None or self.clock() + SAFETY * self.pace.expected_s(cell) <= self.deadline_s
        )

    def _unix_deadline(self) -> float | None:
        return None if self.deadline_s is None else time.time() + self.deadline_s - self.clock()

    def _collect(self) -> None:
        for process in list(self.running):
            if (cell := process.poll()) is not None:
                self.running.remove(process)
                self._count(process, cell)

    def _count(self, process: CellProcess, cell: Cell) -> None:
        label, took = cell.label, duration(process.seconds)
        if cell.status == "done":
            self.outcome.done.append(label)
            self.pace.finished(process.cell, process.seconds)
            self.display.say(f"✓ {label}  {took}")
        elif cell.status == "stopped":
            self.outcome.stopped.append(label)
            self.display.say(f"! {label}  stopped after round {cell.num_rounds_done}, {took}")
        else:
            self.outcome.failed[label] = cell.error or "no reason given"
            self.display.say(f"✗ {label}  failed: {self.outcome.failed[label]}")

    def _show(self, num_cells: int, began_s: float) -> None:
        lines = [cell_line(p.cell.label, p.round, p.rounds, p.seconds) for p in self.running]
        num_ended = num_cells - len(self.waiting) - len(self.running)
        lines.append(summary_line(num_ended, num_cells, self.clock() - began_s, self.remaining_s()))
        self.display.show(lines)

    def remaining_s(self) -> float:
        """Until the last cell is done: the work left over the jobs, at least that of the longest cell."""
        left = [max(1.0, self.pace.expected_s(p.cell) - p.seconds) for p in self.running]
        for number, process in enumerate(self.running):
            share = process.round / max(1, process.rounds)
            if share > 0.2:
                left[number] = process.seconds / share * (1 - share)
        left += [self.pace.expected_s(cell) for cell in self.waiting]
        return max(max(left, default=0.0), sum(left) / self.jobs)

    def _stop_all(self) -> None:
        """Every cell is asked at once, then each is waited for; another Ctrl-C waits no longer."""
        self.display.say("\nstopping; press Ctrl-C again to stop at once")
        patience_s = 0.0
        try:
            for process in self.running:
                process.ask_to_stop()
                patience_s = max(patience_s, PATIENCE_S[process.cell.runner])
            until_s = time.monotonic() + patience_s
            while self.running:
                cell = self.running[0].end(max(0.0, until_s - time.monotonic()))
                self._count(self.running.pop(0), cell)
        except KeyboardInterrupt:
            for process in self.running:
                self.outcome.stopped.append(process.cell.label)


@contextmanager
def hold(root: Path) -> Iterator[int]:
    """The experiment's folder, for this run alone; gives the descriptor that cells inherit, so that none outlives the lock.

    Raises:
        Locked: another run uses it, or cells that it left are still ending.
        StateError: it cannot be written.
    """
    try:
        make_own(root)
        require_own_content(root, unread="cache")  # of real nodes, which a run that was cut off left behind
        file = locked_file(root, "run", "wait for it, or name another folder")
    except OSError as error:
        raise StateError(f"cannot use the folder {root}", str(error), "name another") from None
    with file:
        yield file.fileno()


def require_space(root: Path, waiting: Sequence[Cell], *, free_bytes: int | None = None) -> None:
    """Raises DiskFull when what the cells write would not fit. Checkpoints of real nodes are these nodes' own to check."""
    needed = RESERVE_BYTES + sum(CELL_BYTES + ROUND_BYTES * cell.rounds * len(cell.nodes) for cell in waiting)
    free = shutil.disk_usage(root).free if free_bytes is None else free_bytes
    if free < needed:
        raise DiskFull(
            f"{free / 2**20:.0f} MiB are free for {root}, {needed / 2**20:.0f} are needed",
            f"{len(waiting)} cells are to be run",
            "free some space, or name a folder on another disk",
        )
