"""What goes wrong at a start: one clear message, the documented exit code, and nothing lost."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarmd.experiment.swarms.local_swarm import LocalNode, LocalSwarm
from tests.e2e.watch import FAST, rounds, until


def start(
    data_dir: Path, *arguments: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "swarmd",
        "start",
        "--data-dir",
        str(data_dir),
        "--metrics-port",
        "0",
        *FAST,
        *arguments,
    ]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env={**os.environ, **(env or {})}
    )


def said(result: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    assert result.stderr.count("swarmd: ") == 1
    for word in words:
        assert word in result.stderr


def test_unknown_model(tmp_path: Path) -> None:
    said(start(tmp_path, "--model", "Qwen2.5-0.6B"), 13, "Qwen2.5-0.6B", "Qwen2.5-0.5B")


def test_unknown_setting(tmp_path: Path) -> None:
    said(start(tmp_path, "--set", "swarm.lisen=x"), 2, "swarm.lisen", "did you mean 'swarm.listen'?")


def test_unknown_setting_in_the_environment(tmp_path: Path) -> None:
    said(start(tmp_path, env={"SWARMD_SWARM__PROT": "1"}), 2, "swarm.prot", "SWARMD_SWARM__PROT")


def test_malformed_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[swarm\n")
    said(start(tmp_path), 2, "config.toml", "not valid TOML")


def test_unreadable_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()  # as root, permissions do not keep anybody out
    said(start(tmp_path), 2, "cannot read", "config.toml")


def test_malformed_bootstrap(tmp_path: Path) -> None:
    said(start(tmp_path, "--bootstrap", "/ip4/127.0.0.1/tcp/1"), 2, "/ip4/127.0.0.1/tcp/1", "p2p")


def test_unknown_swarm(tmp_path: Path) -> None:
    said(start(tmp_path, "--swarm", "nowhere"), 2, "nowhere", "tiny")


def test_damaged_identity(tmp_path: Path) -> None:
    (tmp_path / "identity.key").write_bytes(b"short")
    (tmp_path / "identity.key").chmod(0o600)
    said(start(tmp_path), 16, "identity.key", "5 bytes")
    assert (tmp_path / "identity.key").read_bytes() == b"short"


def test_taken_port(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said(start(tmp_path, "--listen", f"/ip4/127.0.0.1/tcp/{port}"), 11, str(port))


def test_second_instance_in_one_directory_and_after_it_the_first_goes_on(at_work: LocalNode) -> None:
    done = rounds(at_work)
    assert at_work.process is not None
    said(start(at_work.data_dir.root, "--solo"), 10, f"pid {at_work.process.pid}", "--data-dir")
    until(lambda: rounds(at_work) > done, "a round", at_work)


@pytest.fixture(scope="module")
def swarm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSwarm]:
    with LocalSwarm(tmp_path_factory.mktemp("history"), 1, arguments=(*FAST, "--solo")) as swarm:
        swarm.start()
        yield swarm


@pytest.fixture
def at_work(swarm: LocalSwarm) -> LocalNode:
    """A node that has done a round, and goes on until a test asks for its `history`."""
    until(lambda: rounds(swarm.nodes[0]) >= 1, "a round", swarm.nodes[0])
    return swarm.nodes[0]


@pytest.fixture(scope="module")
def history(swarm: LocalSwarm) -> Path:
    """The directory of a node that has done at least three rounds alone, and was stopped."""
    node = swarm.nodes[0]
    until(lambda: rounds(node) >= 3, "three rounds", node)
    swarm.stop(evaluate=False)
    assert node.process is not None
    assert node.process.returncode == 0, node.output()
    return node.data_dir.root


@pytest.fixture
def used(history: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(history, tmp_path / "node"))


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
