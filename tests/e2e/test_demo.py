"""The demo's own promises: it learns, it says so by its exit code, and it leaves no process behind, also on Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.watch import alive, descendants, until


def demo(runs: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "swarmd.experiment.demo", "--runs", str(runs), *arguments]
    return subprocess.Popen(command, stdout=(runs.parent / "demo.log").open("wb"), stderr=subprocess.STDOUT)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


def test_four_nodes_learn_from_each_other(runs: Path) -> None:
    process = demo(runs, "--seed", "2")
    assert process.wait(400) == 0, (runs.parent / "demo.log").read_text()
    (report,) = [json.loads(path.read_text()) for path in runs.glob("*/report.json")]
    assert report["learned"]
    assert len(report["nodes"]) == 4
    for node in report["nodes"]:
        assert node["ratio"] >= 5
        assert node["held_out_gain_standard_errors"] >= 3
        assert node["held_out_before"][2] >= 500
        assert len(node["used_by_author"]) == 3
        assert node["rejected"] == 0
    assert next(runs.glob("*/reward.png")).stat().st_size > 10_000


def test_a_run_too_short_to_learn_is_a_failure(runs: Path) -> None:
    process = demo(runs, "--minutes", "0.15", "--nodes", "2")
    assert process.wait(200) == 1
    assert "NOT shown:" in (runs.parent / "demo.log").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_no_process_behind(runs: Path, number: signal.Signals) -> None:
    process = demo(runs)
    until(lambda: len(descendants(process.pid)) >= 4 + 4 * 3, "four nodes with their children")
    below = descendants(process.pid)
    os.kill(process.pid, number)
    assert process.wait(90) == 130
    until(lambda: not any(alive(pid) for pid in below), "the end of every process")
