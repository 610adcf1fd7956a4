"""One cell in a process of its own: started, watched, and ended for certain with whatever it has started."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from swarmd.errors import StateError
from swarmd.experiment.cell import Cell, scratch_of
from swarmd.experiment.run_cell import EXIT_STOPPED
from swarmd.experiment.running.cells import differences, found_cell
from swarmd.experiment.swarms.reaper import Reaper, kill_group

# How long a cell may take to end when asked to: a simulation ends at once, real nodes end their round and write a checkpoint.
PATIENCE_S = {"simulation": 10.0, "processes": 90.0}
_WORDS_BYTES = 4000

Command = Callable[[Path, float | None], list[str]]


def cell_command(folder: Path, deadline_s: float | None) -> list[str]:
    """What runs the cell of a folder; `deadline_s` is Unix time."""
    command = [sys.executable, "-m", "swarmd.experiment.run_cell", str(folder)]
    return command if deadline_s is None else [*command, "--deadline", f"{deadline_s:.3f}"]


class CellProcess:
    """A running cell. `poll` it; `end` it when it is to stop. What it says is in `output.log` of its folder."""

    def __init__(
        self,
        cell: Cell,
        root: Path,
        *,
        deadline_s: float | None,
        reaper: Reaper,
        inherited: tuple[int, ...] = (),
        command: Command = cell_command,
    ) -> None:
        self.cell, self.folder, self._reaper = cell, cell.folder(root), reaper
        self.began_s = time.monotonic()
        self.round, self.rounds = 0, cell.rounds
        _prepare(cell, self.folder)
        with (self.folder / "output.log").open("ab") as output:
            self._process = subprocess.Popen(
                command(self.folder, deadline_s),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=output,
                env=_environment(cell),
                pass_fds=inherited,
                start_new_session=True,  # Ctrl-C is ours to pass on
            )
        reaper.watch(self._process.pid)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began_s

    def poll(self) -> Cell | None:
        """What became of the cell, once it has ended."""
        code = self._process.poll()
        return None if code is None else self._ended(code)

    def ask_to_stop(self) -> None:
        """SIGTERM: end in order."""
        self._process.terminate()

    def end(self, patience_s: float) -> Cell:
        """Wait so long for its end, then end it for certain."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience_s)
        kill_group(self._process.pid)
        self._process.wait()
        return self._ended(EXIT_STOPPED)

    def _ended(self, code: int) -> Cell:
        kill_group(self._process.pid)  # whatever it has left behind
        self._reaper.forget(self._process.pid)
        shutil.rmtree(scratch_of(self._process.pid), ignore_errors=True)
        self._reader.join(5.0)
        try:
            cell = Cell.load(self.folder)
        except StateError:
            cell = self.cell
        if cell.status != "pending":
            return cell
        stopped = code in (EXIT_STOPPED, 130)
        error = "" if stopped else cell.error or f"{_end_of(code)}; {self._last_words()}"
        cell = replace(
            cell,
            status="stopped" if stopped else "failed",
            num_rounds_done=max(cell.num_rounds_done, self.round),
            seconds=cell.seconds or round(self.seconds, 1),
            error=error,
        )
        cell.save(self.folder)
        return cell

    def _last_words(self) -> str:
        try:
            text = (self.folder / "output.log").read_bytes()[-_WORDS_BYTES:].decode(errors="replace").strip()
        except OSError:
            text = ""
        return f"its last words: {text.splitlines()[-1]}" if text else "it said nothing"

    def _read(self) -> None:
        """Progress lines set the round; anything else goes to the log."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                told = json.loads(line)
                self.round, self.rounds = int(told["round"]), int(told["rounds"])
            except (ValueError, KeyError, TypeError):
                with contextlib.suppress(OSError), (self.folder / "output.log").open("ab") as output:
                    output.write(line)


def _prepare(cell: Cell, folder: Path) -> None:
    """A fresh folder for a simulation, which starts over; real nodes of the same cell go on from their checkpoints."""
    try:
        found = found_cell(folder)
    except StateError:
        found = None
    if cell.runner == "simulation" or found is None or found.status == "done" or differences(cell, found):
        shutil.rmtree(folder, ignore_errors=True)
    cell.save(folder)


def _environment(cell: Cell) -> dict[str, str]:
    """One thread for a simulation."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    one = dict.fromkeys(names, "1") if cell.runner == "simulation" else {}
    return {**os.environ, "TOKENIZERS_PARALLELISM": "false", **one}


def _end_of(code: int) -> str:
    if code == 0:
        return "it ended well but wrote no result"
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
