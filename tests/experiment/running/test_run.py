"""Running cells: side by side, in order, within a budget; failures, Ctrl-C and kills leave marks on the disk and no process."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from swarmd.errors import DiskFull, Locked, StateError
from swarmd.experiment.cell import scratch_of
from swarmd.experiment.running.cell_process import Command
from swarmd.experiment.running.cells import Cell
from swarmd.experiment.running.cost import Pace
from swarmd.experiment.running.progress import Display
from swarmd.experiment.running.run import Outcome, Run, hold, require_space
from tests.e2e.watch import alive
from tests.experiment.running.few import SMOKE, fake, quiet, some_cells


def execute(root: Path, cells: list[Cell], command: Command, **options: Any) -> tuple[Outcome, str]:
    """A run without a terminal, and what it said."""
    display, out = quiet()
    options = {"jobs": 2, **options}
    return Run(root, list(cells), Pace(SMOKE), display, command=command, **options).execute(), out.getvalue()


def status(root: Path, cell: Cell) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((cell.folder(root) / "cell.json").read_text())
    return found


def wait_for(path: Path) -> None:
    until_s = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until_s, f"{path} did not appear"
        time.sleep(0.01)


def test_all_cells_are_run_and_said(tmp_path: Path) -> None:
    cells = some_cells()
    outcome, said = execute(tmp_path, cells, fake())
    assert (outcome.exit_code, sorted(outcome.done)) == (0, sorted(cell.label for cell in cells))
    assert all(f"✓ {cell.label}" in said for cell in cells)
    assert {status(tmp_path, cell)["status"] for cell in cells} == {"done"}


def test_what_a_cell_says_besides_its_progress_is_kept(tmp_path: Path) -> None:
    (cell, *_) = some_cells()
    execute(tmp_path, [cell], fake())
    assert (cell.folder(tmp_path) / "output.log").read_text() == "a last word\n"


def test_one_at_a_time_they_come_in_the_plans_order(tmp_path: Path) -> None:
    cells = some_cells()
    outcome, _ = execute(tmp_path, cells, fake(), jobs=1)
    assert outcome.done == [cell.label for cell in cells]


def test_a_cell_that_fails_is_told_with_its_last_words_and_the_others_go_on(tmp_path: Path) -> None:
    cells = some_cells(seeds=[0])
    outcome, said = execute(tmp_path, cells, fake(arm_8_0="fails"))
    assert (outcome.exit_code, outcome.done) == (1, ["alike 4/4 seed 0"])
    assert "✗ alike 8/0 seed 0  failed: exit code 3; its last words: the disk is on fire" in said
    assert status(tmp_path, cells[0])["status"] == "failed"
    assert "on fire" in status(tmp_path, cells[0])["error"]


def test_a_cell_that_ends_well_without_a_result_has_failed(tmp_path: Path) -> None:
    outcome, _ = execute(tmp_path, some_cells(["8/0"], [0]), fake("silent"))
    assert list(outcome.failed.values()) == ["it ended well but wrote no result; its last words: a last word"]


def test_a_simulation_starts_over_in_a_fresh_folder(tmp_path: Path) -> None:
    (cell,) = some_cells(["8/0"], [0])
    old = cell.folder(tmp_path) / "node-0" / "rounds.jsonl"
    old.parent.mkdir(parents=True)
    old.write_text("{}\n")
    execute(tmp_path, [cell], fake())
    assert not old.exists()


# ---------------------------------------------------------------- the budget


def test_nothing_is_started_that_is_not_expected_to_end_in_time(tmp_path: Path) -> None:
    cells = some_cells()
    outcome, _ = execute(tmp_path, cells, fake(), deadline_s=time.monotonic() + 1.0)
    assert (outcome.exit_code, outcome.not_started) == (75, [cell.label for cell in cells])
    assert not (tmp_path / "cells").exists()


def test_expectations_follow_what_finished_cells_took(tmp_path: Path) -> None:
    # given a budget of half of what the preset expects
    (cell,), (display, _), pace = some_cells(["8/0"], [0]), quiet(), Pace(SMOKE)
    half = pace.expected_s(cell) / 2
    run = Run(tmp_path, [], pace, display, 2, deadline_s=half, clock=lambda: 0.0)
    assert not run.fits(cell)
    # when a cell took a quarter, as it would on a faster machine
    pace.finished(cell, half / 2)
    assert run.fits(cell)


def test_a_running_cell_is_given_the_deadline_and_what_is_missing_is_told(tmp_path: Path) -> None:
    # given a budget that is over, by the run's clock, once the first cell has been stopped
    cells = some_cells(seeds=[0])
    display, said = quiet()
    run = Run(
        tmp_path, list(cells), Pace(SMOKE, ratios=[1e-6]), display, 1, deadline_s=1.0, command=fake("waits")
    )
    run.clock = lambda: 10.0 * len(run.outcome.stopped)
    outcome = run.execute()
    assert (outcome.exit_code, outcome.stopped, outcome.not_started) == (
        75,
        [cells[0].label],
        [cells[1].label],
    )
    assert "stopped after round 1" in said.getvalue()
    assert status(tmp_path, cells[0])["status"] == "stopped"


# ---------------------------------------------------------------- being ended


def interrupt(monkeypatch: pytest.MonkeyPatch, *marks: Path) -> None:
    """Ctrl-C once these files are there."""
    doze = time.sleep

    def sleep(seconds: float) -> None:
        if all(mark.exists() for mark in marks):
            monkeypatch.setattr("swarmd.experiment.running.run.time.sleep", doze)
            raise KeyboardInterrupt

    monkeypatch.setattr("swarmd.experiment.running.run.time.sleep", sleep)


def test_ctrl_c_ends_what_runs_and_keeps_the_rest_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = some_cells()
    interrupt(monkeypatch, *(cell.folder(tmp_path) / "waits" for cell in cells[:2]))
    outcome, said = execute(tmp_path, cells, fake("waits"))
    assert outcome.exit_code == 130
    assert outcome.stopped == [cell.label for cell in cells[:2]]
    assert outcome.not_started == [cell.label for cell in cells[2:]]
    assert "stopping" in said
    assert {status(tmp_path, cell)["status"] for cell in cells[:2]} == {"stopped"}


def test_a_cell_that_does_not_end_when_asked_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cell,) = some_cells(["8/0"], [0])
    monkeypatch.setattr("swarmd.experiment.running.run.PATIENCE_S", {"simulation": 0.2})
    interrupt(monkeypatch, cell.folder(tmp_path) / "waits")
    outcome, _ = execute(tmp_path, [cell], fake("stubborn"))
    assert (outcome.exit_code, outcome.stopped) == (130, [cell.label])


def test_what_a_killed_cell_had_started_is_ended_and_what_it_had_written_removed(tmp_path: Path) -> None:
    (cell,) = some_cells(["8/0"], [0])
    mark = cell.folder(tmp_path) / "child"
    scratch: list[Path] = []

    def kill() -> None:
        wait_for(cell.folder(tmp_path) / "waits")
        child = int(mark.read_text())
        pid = int(Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[1])
        scratch.append(scratch_of(pid))
        scratch[0].mkdir()
        os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    outcome, _ = execute(tmp_path, [cell], fake("parent"))
    thread.join()
    assert "killed by signal 9" in outcome.failed[cell.label]
    assert not alive(int(mark.read_text()))
    assert not scratch[0].exists()


RUN = """
import sys
from pathlib import Path
from swarmd.experiment.running.run import hold
from tests.experiment.running.test_run import execute
from tests.experiment.running.few import fake, some_cells
with hold(Path(sys.argv[1])) as lock:
    execute(Path(sys.argv[1]), some_cells(["8/0"], [0]), fake("parent"), inherited=(lock,))
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_kill_9_of_the_run_leaves_no_process_and_no_lock(tmp_path: Path) -> None:
    # given a run whose cell has a child
    process = subprocess.Popen([sys.executable, "-c", RUN, str(tmp_path)])
    folder = some_cells(["8/0"], [0])[0].folder(tmp_path)
    wait_for(folder / "waits")
    child = int((folder / "child").read_text())
    with pytest.raises(Locked, match=f"pid {process.pid}"), hold(tmp_path):
        pass
    # when
    process.kill()
    process.wait()
    # then the child is gone, and with its reaper, which ends after it, the lock
    until_s = time.monotonic() + 60
    while alive(child) or is_held(tmp_path):
        assert time.monotonic() < until_s, "the cell's child or the lock lives on"
        time.sleep(0.01)


def is_held(root: Path) -> bool:
    try:
        with hold(root):
            return False
    except Locked:
        return True


# ---------------------------------------------------------------- checks before


def test_too_little_space_is_told_before_anything_is_started(tmp_path: Path) -> None:
    with pytest.raises(DiskFull, match=r"1 MiB are free .* 204 are needed"):
        require_space(tmp_path, some_cells(), free_bytes=2**20)


def test_enough_space_is_enough(tmp_path: Path) -> None:
    require_space(tmp_path, some_cells(), free_bytes=2**30)


# ---------------------------------------------------------------- progress


def test_without_a_terminal_progress_is_plain_lines_now_and_then(tmp_path: Path) -> None:
    now, out = [0.0], io.StringIO()
    display = Display(out, terminal=False, clock=lambda: now[0])
    for second in range(25):
        now[0] = float(second)
        display.show([f"at {second}"])
    display.say("done")
    assert out.getvalue() == "at 10\nat 20\ndone\n"


def test_on_a_terminal_no_line_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    out = io.StringIO()
    Display(out, terminal=True).show(["x" * 50])
    assert out.getvalue() == "x" * 19 + "\n"


def test_on_a_terminal_lines_are_drawn_over_the_last_ones_and_what_is_said_stays() -> None:
    out = io.StringIO()
    display = Display(out, terminal=True)
    display.show(["a", "b"])
    display.say("said")
    display.show(["c"])
    assert out.getvalue() == "a\nb\n\x1b[2F\x1b[Jsaid\nc\n"


def test_remaining_time_is_the_work_left_over_the_jobs(tmp_path: Path) -> None:
    display, _ = quiet()
    cells = some_cells()
    run = Run(tmp_path, list(cells), Pace(SMOKE), display, 2)
    assert run.remaining_s() == pytest.approx(sum(Pace(SMOKE).expected_s(cell) for cell in cells) / 2)
    run.waiting = run.waiting[:1]
    assert run.remaining_s() == pytest.approx(Pace(SMOKE).expected_s(cells[0]))


def test_what_a_cut_off_runs_nodes_left_in_their_caches_does_not_stop_the_next(tmp_path: Path) -> None:
    cache = tmp_path / "cells" / "node-0" / "cache"
    cache.mkdir(parents=True)
    (cache / "model.safetensors").symlink_to("/elsewhere")
    with hold(tmp_path):
        pass


def test_a_planted_link_in_an_experiments_folder_is_not_followed(tmp_path: Path) -> None:
    (victim := tmp_path / "victim").write_text("precious")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "lock").symlink_to(victim)
    with pytest.raises(StateError, match="it is a link"), hold(tmp_path / "run"):
        pass
    assert victim.read_text() == "precious"
