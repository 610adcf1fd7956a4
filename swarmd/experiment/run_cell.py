"""The process of one cell.

`python -m swarmd.experiment.run_cell CELL_DIR` reads `cell.json` there, leaves each node's `rounds.jsonl` and `evaluations.jsonl`,
and writes back how the cell ended. It prints its progress as JSON lines, and exits with 0 when the cell is done, with 75 when a
deadline stopped it.
"""

import argparse
import contextlib
import json
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from swarmd.errors import SwarmdError
from swarmd.experiment.cell import Cell, OnProgress, Status, Stopped

EXIT_STOPPED = 75


def run_cell(directory: Path, *, deadline_s: float | None, on_progress: OnProgress) -> Cell:
    """Run the cell in `directory` and write how it ended. `deadline_s` is Unix time.

    Raises:
        StateError: there is no readable cell.
        SwarmdError: what made it fail; the cell says so, too.
    """
    cell = Cell.load(directory)
    started = time.monotonic()

    def ended(status: Status, num_rounds: int, error: str = "") -> Cell:
        seconds = round(time.monotonic() - started, 1)
        result = replace(cell, status=status, num_rounds_done=num_rounds, seconds=seconds, error=error)
        result.save(directory)
        return result

    try:
        _runner(cell)(cell, directory, deadline_s=deadline_s, on_progress=on_progress)
    except Stopped as stopped:
        return ended("stopped", stopped.num_rounds)
    except SwarmdError as error:
        ended("failed", 0, str(error))
        raise
    return ended("done", cell.rounds)


def _runner(cell: Cell) -> Callable[..., None]:
    if cell.runner == "processes":
        from swarmd.experiment.swarms.processes import run_cell as run_processes

        return run_processes
    from swarmd.experiment.swarms.simulation import run_cell as run_simulation

    return run_simulation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--deadline", type=float, default=None, metavar="UNIX_S")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def on_progress(done: int, rounds: int) -> None:
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps({"round": done, "rounds": rounds}), flush=True)

    try:
        cell = run_cell(options.directory, deadline_s=options.deadline, on_progress=on_progress)
    except SwarmdError as error:
        print(f"swarmd: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0 if cell.status == "done" else EXIT_STOPPED)


if __name__ == "__main__":
    main()
