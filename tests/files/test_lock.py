"""The lock of a data directory is held by a node's children too: who comes after a kill waits for them, and then names them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from swarmd.errors import Locked
from swarmd.files.datadir import DataDir
from swarmd.files.lock import Lock

HOLDER = """
import subprocess, sys
from pathlib import Path
from swarmd.files.datadir import DataDir
from swarmd.files.lock import Lock
lock = Lock(DataDir(Path(sys.argv[1])))
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[lock.fd])
print(child.pid, flush=True)
input()
"""


@contextmanager
def left_by_a_kill(folder: Path, *, reaped: bool = True) -> Iterator[int]:
    """A stopped process that inherited the lock of a holder that was killed; its id."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        pid = int(holder.stdout.readline())
        os.kill(pid, signal.SIGSTOP)
        holder.kill()
        if reaped:
            holder.wait()
        try:
            yield pid
        finally:
            end(pid)


def end(pid: int) -> None:
    """Kill a process that may be gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("reaped", [True, False])
def test_a_left_process_is_named_with_what_to_do(tmp_path: Path, reaped: bool) -> None:
    said = list[str]()
    with left_by_a_kill(tmp_path, reaped=reaped) as pid, pytest.raises(Locked) as refused:
        Lock(DataDir(tmp_path), say=said.append, patience_s=1.5)
    assert f"that a killed swarmd left: pid {pid}" in refused.value.what
    assert (refused.value.exit_code, refused.value.fix) == (10, f"end them: kill -9 {pid}")
    assert len(said) == 1


def test_who_comes_after_a_kill_waits_until_all_are_gone(tmp_path: Path) -> None:
    with left_by_a_kill(tmp_path) as pid:
        lock = Lock(DataDir(tmp_path), say=lambda line: end(pid), patience_s=120)
    assert (tmp_path / "lock").read_text() == str(os.getpid())
    lock.release()


def test_a_holder_that_lives_is_not_waited_for(tmp_path: Path) -> None:
    lock, said = Lock(DataDir(tmp_path)), list[str]()
    with pytest.raises(Locked, match="another swarmd"):
        Lock(DataDir(tmp_path), say=said.append, patience_s=3600)
    assert not said
    lock.release()
