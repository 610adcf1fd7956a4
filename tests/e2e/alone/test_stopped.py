"""A node's directory: a second start beside the node, a node that was stopped, and starts in what it left."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from swarmd.experiment.swarms.local_swarm import LocalNode
from tests.e2e.alone.conftest import History
from tests.e2e.test_start_errors import said, start
from tests.e2e.watch import rounds, until


def test_second_instance_in_one_directory_and_after_it_the_first_goes_on(node: LocalNode) -> None:
    done = rounds(node)
    assert node.process is not None
    said(start(node.data_dir.root, "--solo"), 10, f"pid {node.process.pid}", "--data-dir")
    until(lambda: rounds(node) > done, "a round", node)


def test_weights_handed_over_leave_no_file_behind(history: History) -> None:
    assert history.folders_at_work
    assert history.folders_left == []


@pytest.fixture
def used(history: History, tmp_path: Path) -> Path:
    return Path(shutil.copytree(history.root, tmp_path / "node"))


def checkpoints(root: Path) -> list[Path]:
    return sorted((root / "checkpoints").glob("round-*"))


def round_of(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("round-"))


def damage(checkpoint: Path) -> None:
    weights = checkpoint / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 1
    weights.write_bytes(data)


def test_a_corrupt_checkpoint_gives_way_to_the_one_before(used: Path) -> None:
    # given one flipped bit in the newest of two checkpoints
    newest = checkpoints(used)[-1]
    last = round_of(newest)
    damage(newest)
    # when
    result = start(used, "--solo", "--rounds", str(last + 1))
    # then it says so, goes on from the older one, and keeps what was damaged
    assert result.returncode == 0, result.stderr
    assert newest.name in result.stdout + result.stderr
    assert f"after round {last - 1}" in result.stdout
    assert f"round {last + 1}" in result.stdout
    assert list((used / "checkpoints").glob(f"*{newest.name}*"))


def test_when_every_checkpoint_is_corrupt_nothing_starts_afresh_unasked(used: Path) -> None:
    for checkpoint in checkpoints(used):
        damage(checkpoint)
    said(start(used, "--solo", "--rounds", "4"), 16, "checkpoint")


def test_another_swarm_in_the_same_directory(used: Path) -> None:
    said(start(used, "--solo", "--swarm", "reasoning"), 16, "belongs to another swarm")


def test_a_stopped_nodes_policy_is_exported_as_a_folder_that_a_node_can_start_from(
    used: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "swarmd", "export", str(tmp_path / "out"), "--data-dir", str(used)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert checkpoints(used)[-1].name in done.stdout
    result = start(
        tmp_path / "other", "--model", str(tmp_path / "out"), "--swarm", "tiny", "--solo", "--rounds", "1"
    )
    assert result.returncode == 0, result.stderr
