"""A child's log: what the child and its libraries print. Bounded, also while the child runs."""

import logging
import os
import shutil
from collections import deque
from pathlib import Path
from typing import BinaryIO

import trio

log = logging.getLogger(__name__)
# Two of these a child: the log, and what was in it before. A day of ordinary warnings is some kilobytes.
LOG_BYTES_MAX = 10 * 2**20
LOOK_S = 10.0


def open_log(path: Path) -> BinaryIO:
    """The log for a child that starts: it appends, so the file may be emptied under it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    bound(path)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644), "ab")


def bound(path: Path) -> None:
    """Where the log is too long, its end becomes `.log.1` and the log is empty; lines of that moment are lost. Raises OSError."""
    if not path.exists() or path.stat().st_size <= LOG_BYTES_MAX:
        return
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    with os.fdopen(handle, "r+b") as source, _new(path.with_suffix(".log.1")) as target:
        source.seek(-LOG_BYTES_MAX, os.SEEK_END)
        shutil.copyfileobj(source, target)
        source.truncate(0)


async def keep_bounded(path: Path) -> None:
    """Look at the log of a running child now and then, until cancelled."""
    while True:
        await trio.sleep(LOOK_S)
        try:
            await trio.to_thread.run_sync(bound, path)
        except OSError as error:  # a full disk: the next look may find space
            log.warning("%s cannot be cut: %s", path, error)


def tail(path: Path, num_lines: int = 5) -> str:
    """The last lines of a child's log, for the message that reports its death."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        return "\n".join(line.decode("utf-8", "replace").rstrip() for line in deque(file, maxlen=num_lines))


def _new(path: Path) -> BinaryIO:
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb")
