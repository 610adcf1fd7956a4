"""Small experiments for real: the command, cells in processes of their own, and swarms simulated or over libp2p."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from swarmd.errors import ConfigError, LocalError
from swarmd.experiment.cell import Cell, NodeSpec, Stopped, identity_seed
from swarmd.experiment.swarms.processes import devices, run_cell
from swarmd.protocol.signing import Identity
from tests.e2e.watch import alive, descendants, until

SMALL = (
    "--preset",
    "smoke",
    "--nodes",
    "2",
    "--rounds",
    "3",
    "--jobs",
    "2",
    "--set",
    "evaluate.num_questions=8",
)
SETTINGS = {
    "swarm.name": "tiny",
    "policy.device": "cpu",
    "policy.threads": "1",
    "experience.mix": "2/2",
    "evaluate.num_questions": "8",
    "evaluate.completions": "1",
    "evaluate.every_rounds": "0",
}


def command(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "swarmd", "experiment", "run", *words, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    said, _ = process.communicate(timeout=600)
    return process.returncode, said


def records(cell: Path, number: int, name: str = "rounds") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (cell / f"node-{number}" / f"{name}.jsonl").read_text().splitlines()]


def cells(folder: Path) -> Sequence[Path]:
    return sorted(path.parent for path in folder.glob("cells/*/*/*/cell.json"))


def test_two_arms_are_run_and_leave_their_records(tmp_path: Path) -> None:
    code, said = ended(command(tmp_path, *SMALL, "--arms", "8/0,4/4"))
    assert code == 0, said
    assert f"report  {tmp_path}/report/report.html" in said
    assert (tmp_path / "report" / "report.md").exists()
    shared, alone = cells(tmp_path)
    assert (shared.parent.name, alone.parent.name) == ("4-4", "8-0")
    for folder in (alone, shared):
        assert json.loads((folder / "cell.json").read_text())["status"] == "done"
        for number in (0, 1):
            assert [record["round"] for record in records(folder, number)] == [1, 2, 3]
            assert [record["round"] for record in records(folder, number, "evaluations")] == [0, 3]
    # three rounds may see no informative rollout of the other; they ask for some all the same
    assert sum(record["num_external"] + record["shortfall"] for record in records(alone, 0)) == 0
    assert sum(record["num_external"] + record["shortfall"] for record in records(shared, 0)) > 0
    assert any(record["num_received"] for number in (0, 1) for record in records(shared, number))


def test_sigterm_leaves_no_process_and_the_same_command_goes_on(tmp_path: Path) -> None:
    # given a run whose cell is under way
    words = (*SMALL, "--rounds", "300", "--arms", "8/0", "--jobs", "1")
    process = command(tmp_path, *words)
    until(lambda: len(descendants(process.pid)) >= 3, "a cell and what it starts")
    below = descendants(process.pid)
    # when
    process.send_signal(signal.SIGTERM)
    code, said = ended(process)
    # then
    assert code == 130
    assert "the same command goes on" in said
    until(lambda: not any(alive(pid) for pid in below), "the end of every process")
    (cell,) = cells(tmp_path)
    assert json.loads((cell / "cell.json").read_text())["status"] == "stopped"


@pytest.mark.slow
def test_real_processes_do_their_rounds_from_each_others_rollouts(tmp_path: Path) -> None:
    code, said = ended(
        command(
            tmp_path,
            *SMALL[:5],
            "30",
            *SMALL[6:],
            "--arms",
            "4/4",
            "--runner",
            "processes",
            "--scenario",
            "late",
        )
    )
    assert code == 0, said
    (cell,) = cells(tmp_path)
    for number, (rounds, external) in enumerate([(45, 0), (60, 1)]):
        found = records(cell, number)
        assert [record["round"] for record in found] == list(range(1, rounds + 1))
        assert sum(record["num_external"] for record in found) >= external
        secret = identity_seed(0, number)
        assert (cell / f"node-{number}" / "identity.key").read_bytes() == secret
        others = {author for record in found for author in record["used_by_author"]}
        assert others <= {Identity.from_seed(identity_seed(0, 1 - number)).peer_id}


@pytest.mark.slow
def test_a_deadline_stops_real_nodes_and_a_second_run_goes_on_where_they_were(tmp_path: Path) -> None:
    cell = Cell("alike", "2/2", SETTINGS, 0, (NodeSpec("node-0"), NodeSpec("node-1")), 400, "processes")
    folder = tmp_path / "cells" / "alike" / "2-2" / "seed-0"
    cell.save(folder)
    told: list[int] = []

    def progress(done: int, rounds: int) -> None:
        told.append(done)

    with pytest.raises(Stopped) as stopped:
        run_cell(cell, folder, deadline_s=time.time() + 40, on_progress=progress)
    done = [len(records(folder, number)) for number in (0, 1)]
    assert 0 < stopped.value.num_rounds <= min(done)
    assert told == sorted(told)
    # when: a few rounds more are enough for the second run
    more = Cell("alike", "2/2", SETTINGS, 0, cell.nodes, max(done) + 5, "processes")
    run_cell(more, folder, deadline_s=None, on_progress=progress)
    for number in (0, 1):
        rounds = [record["round"] for record in records(folder, number)]
        assert sorted(set(rounds)) == list(range(1, max(done) + 6))


# ---------------------------------------------------------------- without starting anything, or not for long


def test_nodes_of_another_speed_are_refused(tmp_path: Path) -> None:
    cell = Cell("mixed", "2/2", SETTINGS, 0, (NodeSpec("node-0", speed=0.1),), 3, "processes")
    with pytest.raises(ConfigError, match=r"node-0 is to run at 0\.1 times"):
        run_cell(cell, tmp_path, deadline_s=None, on_progress=lambda done, rounds: None)
    assert not (tmp_path / "node-0").exists()


def test_a_node_that_ends_too_early_is_told_with_its_last_words(tmp_path: Path) -> None:
    folder = tmp_path / "cells" / "alike" / "2-2" / "seed-0"
    folder.mkdir(parents=True)
    settings = {**SETTINGS, "policy.model": "/nowhere"}
    cell = Cell("alike", "2/2", settings, 0, (NodeSpec("node-0"), NodeSpec("node-1")), 3, "processes")
    with pytest.raises(LocalError) as failed:
        run_cell(cell, folder, deadline_s=None, on_progress=lambda done, rounds: None)
    assert "ended after round 0 of 3 with code 13" in str(failed.value)
    assert "/nowhere" in str(failed.value)


@pytest.mark.parametrize(
    ("visible", "expected"), [("3,5", ["3", "5", "3"]), ("7", ["7", "7", "7"]), ("", [])]
)
def test_each_node_has_a_gpu_of_its_own_as_far_as_there_are_some(visible: str, expected: list[str]) -> None:
    nodes = tuple(NodeSpec(f"node-{number}") for number in range(3))
    cell = Cell("alike", "4/4", {"policy.device": "cuda"}, 0, nodes, 3, "processes")
    found = devices(cell, visible)
    assert [found[number]["CUDA_VISIBLE_DEVICES"] for number in sorted(found)] == expected


def test_on_a_cpu_no_gpu_is_given_out() -> None:
    assert devices(Cell("alike", "4/4", SETTINGS, 0, (NodeSpec("node-0"),), 3, "processes"), "0,1") == {}
