"""A child's process as the operating system sees it: how it is made, and how it is ended."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import trio

from swarmd.processes.logs import open_log

# How long a child whose socket is closed has to end by itself.
END_S = 3.0


async def spawn(
    service: str, log_path: Path, env: Mapping[str, str], held: Sequence[int] = ()
) -> tuple[trio.Process, trio.SocketStream]:
    """A fresh interpreter with one end of a socketpair, and the other end; never a fork of this process. Raises OSError.

    `held`: descriptors that it inherits too, and whose locks it therefore holds. Its own children do not inherit them.
    """
    ours, theirs = socket.socketpair()
    with theirs, open_log(log_path) as log:
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "swarmd.processes.child", str(theirs.fileno()), service],
            pass_fds=[theirs.fileno(), *held],
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
