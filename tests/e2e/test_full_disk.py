"""A disk that is full: on a small file system of its own, in a mount namespace, so that nothing else notices."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from swarmd.control.client import ask
from tests.e2e.watch import FAST, until

# What the node keeps free (64 MiB), its two checkpoints (7.5 MB each), the buffer, and a little.
SIZE_MIB = 96


def can_mount() -> bool:
    command = (
        ["unshare", "--mount", "--map-root-user", "true"] if os.getuid() else ["unshare", "--mount", "true"]
    )
    return (
        shutil.which("unshare") is not None
        and subprocess.run(command, check=False, capture_output=True).returncode == 0
    )


pytestmark = pytest.mark.skipif(
    not can_mount(), reason="needs a mount namespace for a small file system of its own"
)


def start(root: Path, *arguments: str, filled_bytes: int = 0) -> subprocess.Popen[bytes]:
    """Run a node on a fresh file system of `SIZE_MIB` at `root`, of which `filled_bytes` are taken already."""
    unshare = ["unshare", "--mount"] + (["--map-root-user"] if os.getuid() else [])
    node = [
        sys.executable,
        "-m",
        "swarmd",
        "start",
        "--data-dir",
        str(root),
        "--metrics-port",
        "0",
        *FAST,
        "--solo",
        *arguments,
    ]
    mount = f'mount -t tmpfs -o size={SIZE_MIB}m,mode=0700 tmpfs "$0"'
    shell = f'{mount} && head -c {filled_bytes} /dev/zero > "$0/filler" && exec "$@"'
    with (root.parent / "output.log").open("wb") as output:
        return subprocess.Popen(
            [*unshare, "sh", "-c", shell, str(root), *node],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path / "state"


def output(root: Path) -> str:
    return (root.parent / "output.log").read_text()


def test_a_start_without_space_for_a_checkpoint_is_refused(root: Path) -> None:
    node = start(root, filled_bytes=40_000_000)
    assert node.wait(300) == 17
    assert "checkpoints need" in output(root)
    assert "--data-dir" in output(root)


def test_a_disk_that_fills_up_costs_no_checkpoint_and_is_said(root: Path) -> None:
    node = start(root)
    try:
        _fills_up(root, node)
    finally:
        node.kill()
        node.wait()


def _fills_up(root: Path, node: subprocess.Popen[bytes]) -> None:
    # given a node with a checkpoint
    until(lambda: "round 2 " in output(root), "two rounds")
    inside = Path(f"/proc/{node.pid}/root") / str(root).lstrip("/")
    # when its disk fills up
    until(lambda: fill(inside) or "NOT SAVED" in output(root), "a round that is not saved")
    # then it goes on, says so, and its newest good checkpoint stays what it was
    kept = checkpoints(inside)
    assert kept
    num_unsaved = output(root).count("NOT SAVED")
    until(lambda: output(root).count("NOT SAVED") > num_unsaved + 2, "further rounds")
    assert checkpoints(inside) == kept
    until(lambda: "disk_low" in codes(inside), "a finding of the health, which is looked at once a second")
    # and an orderly stop ends with the documented code and one message
    os.kill(node.pid, signal.SIGTERM)
    assert node.wait(300) == 17
    assert output(root).count("swarmd: the rounds since the last checkpoint are lost") == 1


def codes(inside: Path) -> list[str]:
    """What the node finds wrong with itself, the gravest first."""
    return [finding["code"] for finding in ask(inside / "control.sock", "/v1/status")["health"][:1]]


def fill(inside: Path) -> None:
    """Leave 66 MiB at most. A checkpoint under way counts as taken, and leaves more when it replaces another: fill again."""
    too_much = shutil.disk_usage(inside).free - 66 * 2**20
    with (inside / "filler").open("ab") as file:
        file.write(bytes(max(0, too_much)))


def checkpoints(inside: Path) -> list[tuple[str, int]]:
    return sorted(
        (path.parent.name, json.loads(path.read_text())["state"]["round"])
        for path in inside.glob("checkpoints/*/state.json")
    )
