"""A child's process as the operating system sees it: how it is made, how it is ended, and its log."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import trio

LOG_BYTES_MAX = 10 * 2**20
# How long a child whose socket is closed has to end by itself.
END_S = 3.0


async def spawn(
    service: str, log_path: Path, env: Mapping[str, str]
) -> tuple[trio.Process, trio.SocketStream]:
    """A fresh interpreter with one end of a socketpair, and the other end; never a fork of this process. Raises OSError."""
    ours, theirs = socket.socketpair()
    with theirs, _open_log(log_path) as log:
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "swarmd.processes.child", str(theirs.fileno()), service],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, **env},
        )
    return process, trio.SocketStream(trio.socket.from_stdlib_socket(ours))


async def end(process: trio.Process, *, at_once: bool) -> int | None:
    """Wait for a process whose socket is closed; kill its whole session if it does not end by itself, or `at_once`.

    Returns the exit status that it had before; None where it was ours to end it.
    """
    with trio.CancelScope(shield=True):
        if not at_once:
            with trio.move_on_after(END_S):
                await process.wait()
        status: int | None = process.returncode
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return status


def _open_log(path: Path) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > LOG_BYTES_MAX:
        path.replace(path.with_suffix(".log.1"))
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644), "ab")


def tail(path: Path, num_lines: int = 5) -> str:
    """The last lines of a child's log, for the message that reports its death."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        return "\n".join(line.decode("utf-8", "replace").rstrip() for line in deque(file, maxlen=num_lines))
