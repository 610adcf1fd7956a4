"""The demo's own promises: it learns, it says so by its exit code, and it leaves no process behind, also on Ctrl-C."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from swarmd.experiment.reporting.learned import Learned
from swarmd.experiment.reporting.results import read_experiment
from tests.e2e.watch import alive, descendants, until


def demo(runs: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "swarmd", "experiment", "run", "--preset", "demo", *arguments]
    command.append(str(runs / "demo"))
    return subprocess.Popen(command, stdout=(runs.parent / "demo.log").open("wb"), stderr=subprocess.STDOUT)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


@pytest.mark.parametrize("num_nodes", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_nodes_learn_from_each_other(runs: Path, num_nodes: int) -> None:
    # At this rate 48 rounds show the rise that the preset's 140 show at its own. The preset has four nodes by itself.
    words = ("--rounds", "48", "--set", "update.learning_rate=1e-3", "--minutes", "10")
    process = demo(runs, *words, *(() if num_nodes == 4 else ("--nodes", str(num_nodes))))
    assert process.wait(900) == 0, (runs.parent / "demo.log").read_text()
    (folder,) = runs.iterdir()
    (cell,) = read_experiment(folder).cells
    assert len(cell.nodes) == num_nodes
    for node in cell.nodes:
        found = Learned.of(node)
        assert found.ratio >= 5
        assert found.gain_errors is not None
        assert found.gain_errors >= 3
        assert len(node.used_by_author) == num_nodes - 1
        assert node.num_rejected == 0
    assert "Every node" in (folder / "report" / "report.md").read_text()
    assert next(folder.glob("report/*.png")).stat().st_size > 10_000


def test_a_run_that_cannot_end_in_time_is_a_failure(runs: Path) -> None:
    process = demo(runs, "--minutes", "0.15")
    assert process.wait(300) == 75
    assert "missing: alike 4/4 seed 0" in (runs.parent / "demo.log").read_text()


def test_ctrl_c_leaves_no_process_behind(runs: Path) -> None:
    process = demo(runs, "--nodes", "2")
    until(lambda: len(descendants(process.pid)) >= 2 + 2 * 3, "two nodes with their children")
    below = descendants(process.pid)
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(300) == 130
    until(lambda: not any(alive(pid) for pid in below), "the end of every process")
