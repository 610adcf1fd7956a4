"""The lock of a folder: one holder, and the processes that it started. The kernel releases it when the last of them is gone."""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from swarmd.errors import Locked
from swarmd.files.datadir import DataDir, claim
from swarmd.files.failing import disk_error
from swarmd.files.owned import make_own, open_own

# The children of a killed daemon end within 0.2 s, and took 4 s once on a busy machine. Who waits longer waits for a stopped one.
LEFT_S_MAX = 10.0
_TICK_S, _SAID_AFTER_S = 0.1, 1.0
_NAME = "lock"


def locked_file(folder: Path, who: str, fix: str) -> TextIO:
    """The file `lock` of a folder, which holds the folder until it is closed. Raises OSError, and Locked with these words."""
    file = os.fdopen(open_own(folder / _NAME, os.O_RDWR | os.O_CREAT), "r+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        pid = _written(folder) or "unknown"
        raise Locked(f"another {who} (pid {pid}) already uses {folder}", fix=fix) from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


class Lock:
    """Holds a data directory for this process and for the children that inherit `fd`; a second holder gets `Locked`.

    The children of a killed holder get a while to end, which is said when it takes a second.

    Raises:
        Locked: it is held. StateError: it cannot be made, or `claim` refuses it.
    """

    def __init__(
        self,
        data_dir: DataDir,
        *,
        say: Callable[[str], None] = lambda line: None,
        patience_s: float = LEFT_S_MAX,
    ) -> None:
        make_own(data_dir.root)
        claim(data_dir)
        try:
            self._file = _wait(data_dir.root, say, patience_s)
        except OSError as error:
            what = f"cannot use the data directory {data_dir.root}"
            raise disk_error(error, what, "choose another with --data-dir") from None

    @property
    def fd(self) -> int:
        """The descriptor that holds the lock. A child that inherits it holds the directory as long as it lives."""
        return self._file.fileno()

    def release(self) -> None:
        self._file.close()


def _wait(folder: Path, say: Callable[[str], None], patience_s: float) -> TextIO:
    began_s, said = time.monotonic(), False
    while True:
        try:
            fix = (
                "look at it with `swarmd status`, or start a second node with --data-dir DIR and another port"
            )
            return locked_file(folder, "swarmd", fix)
        except Locked:
            holders = _holders(folder / _NAME)
            if _written(folder) in holders:
                raise
            waited_s = time.monotonic() - began_s
            if waited_s >= patience_s:
                if not holders:  # those of another user, or of another machine or container
                    raise
                pids = " ".join(sorted(holders))
                raise Locked(
                    f"{folder} is still used by processes that a killed swarmd left: pid {pids}",
                    "they may write to it, and hold its port",
                    f"end them: kill -9 {pids}",
                ) from None
            if waited_s >= _SAID_AFTER_S and not said:
                say(f"… waiting    {patience_s:.0f} s at most, for the processes of a killed swarmd to end")
                said = True
            time.sleep(_TICK_S)


def _written(folder: Path) -> str:
    """The process id that the holder wrote; empty where it has not yet."""
    with os.fdopen(open_own(folder / _NAME, os.O_RDONLY)) as file:
        return file.read(20).strip()


def _holders(path: Path) -> set[str]:
    """The ids of this user's processes that have the file open; where there is no /proc, the one that it names, if that exists."""
    if not os.path.isdir("/proc/self/fd"):
        pid = _written(path.parent)
        try:
            os.kill(int(pid), 0)
        except (ValueError, ProcessLookupError):
            return set()
        except PermissionError:
            pass
        return {pid}
    target, found = os.path.realpath(path), set()
    for fds in Path("/proc").glob("[0-9]*/fd"):
        with contextlib.suppress(OSError):  # another user's, or gone
            if any(os.readlink(f"{fds}/{fd}") == target for fd in os.listdir(fds)):
                found.add(fds.parent.name)
    return found
