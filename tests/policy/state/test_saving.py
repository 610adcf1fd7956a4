"""Checkpoints in the background: whole, of one moment, told once, and gone without a trace where the process is killed."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from swarmd.policy.state import checkpoints, saving
from swarmd.policy.state.checkpoints import Content, newest_valid, of_round, recover
from swarmd.policy.state.saving import Saving
from swarmd.policy.state.weights import opened


def content(round: int, weights: dict[str, torch.Tensor]) -> Content:
    return Content(round, round, "m", weights, {"step/w": torch.tensor(1.0)}, {"round": round})


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The disk stands still until the event is set."""
    event, write = threading.Event(), checkpoints.save

    def slow(*args: object, **kwargs: object) -> str:
        assert event.wait(60)
        return write(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(checkpoints, "save", slow)
    yield event
    event.set()


def test_what_is_written_is_of_the_moment_at_which_it_was_begun(
    tmp_path: Path, gate: threading.Event
) -> None:
    weights = {"w": torch.zeros(5)}
    writer = Saving(tmp_path, keep=2)
    assert writer.begin(content(1, weights)).round is None
    writer.release()
    weights["w"].fill_(9)
    assert writer.outcome().round is None
    gate.set()
    told = writer.outcome(wait=True)
    assert (told.round, told.checkpoint, told.failure) == (1, "round-00000001", None)
    assert told.size_bytes == 24
    assert writer.outcome().round is None  # told once
    with opened(tmp_path / "round-00000001") as file:
        assert file.get_tensor("w").tolist() == [0] * 5


def test_tensors_may_not_change_before_they_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied, copy = threading.Event(), saving._on_host

    def slow(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        assert copied.wait(60)
        return copy(tensors)

    monkeypatch.setattr(saving, "_on_host", slow)
    writer = Saving(tmp_path, keep=2)
    writer.begin(content(1, {"w": torch.zeros(5)}))
    released = threading.Thread(target=writer.release)
    released.start()
    released.join(0.05)
    assert released.is_alive()
    copied.set()
    released.join(60)
    assert (writer.outcome(wait=True).seconds_held or 0) > 0


def test_one_is_written_after_the_other(tmp_path: Path) -> None:
    writer = Saving(tmp_path, keep=5)
    for round in (1, 2, 3):
        writer.begin(content(round, {"w": torch.full((3,), float(round))}))
    assert writer.now(content(4, {"w": torch.zeros(3)})).checkpoint == "round-00000004"
    assert [of_round(tmp_path, round).policy_version for round in (1, 2, 3, 4)] == [1, 2, 3, 4]


def test_a_host_without_memory_for_a_copy_gets_it_written_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "_on_host", lambda tensors: pytest.fail("copied"))
    told = Saving(tmp_path, keep=2, host_free=lambda: 2**30).begin(content(1, {"w": torch.zeros(5)}))
    assert told.checkpoint == "round-00000001"
    assert told.seconds_held == told.seconds


@pytest.mark.parametrize("step", ["_on_host", "save"])
def test_what_fails_in_the_background_is_told_and_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def failing(*args: object, **kwargs: object) -> str:
        raise RuntimeError("no more")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints if step == "save" else saving, step, failing)
        writer = Saving(tmp_path, keep=2)
        writer.begin(content(1, {"w": torch.zeros(5)}))
        writer.release()
        told = writer.outcome(wait=True)
    assert (told.round, told.checkpoint) == (1, None)
    assert told.failure is not None
    assert "no more" in told.failure.what
    writer.begin(content(2, {"w": torch.zeros(5)}))
    assert writer.outcome(wait=True).checkpoint == "round-00000002"


# Imports torch once, and forks for each folder that it is given a process to be killed.
KILLED = """
import os, sys, time, torch
from pathlib import Path
from swarmd.policy.state.checkpoints import Content
from swarmd.policy.state.saving import Saving
def content(round):
    weights = {f"w{n}": torch.full((1 << 20,), float(round)) for n in range(24)}
    return Content(round, round, "m", weights, {"step/w": torch.tensor(float(round))}, {"round": round})
def killed(folder):
    writer = Saving(Path(folder), keep=2)
    print(os.getpid(), writer.now(content(1)).seconds, flush=True)
    writer.begin(content(2))
    print("begun", flush=True)
    writer.finish()
    print("whole", flush=True)
    time.sleep(60)
torch.set_num_threads(1)
for line in sys.stdin:
    child = os.fork()
    if not child:
        killed(line.strip())
    os.waitpid(child, 0)
    print("ended", flush=True)
"""


@pytest.fixture(scope="module")
def forking() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", KILLED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("moment", range(10))
def test_a_kill_at_any_moment_of_a_background_write_damages_nothing(
    tmp_path: Path, forking: subprocess.Popen[str], moment: int
) -> None:
    assert forking.stdin is not None
    assert forking.stdout is not None
    print(tmp_path, file=forking.stdin, flush=True)
    pid, one_s = forking.stdout.readline().split()
    assert forking.stdout.readline() == "begun\n"
    time.sleep(float(one_s) * moment / 9)
    os.kill(int(pid), signal.SIGKILL)
    whole = (said := forking.stdout.readline()) == "whole\n"
    assert (forking.stdout.readline() if whole else said) == "ended\n"
    found = recover(tmp_path)
    assert found.path is not None
    assert found.state["round"] == found.policy_version
    assert found.policy_version in ((2,) if whole else (1, 2))
    with opened(found.path) as file:
        assert set(file.get_tensor("w23").tolist()) == {float(found.policy_version)}
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith("round-")] == []
    assert newest_valid(tmp_path).skipped == ()
