"""A reaper: a tiny process that kills the process groups told to it as soon as whoever started it is gone, however that ended.

Ends by itself when its owner closes it or dies. Even `kill -9` of an experiment therefore leaves no process behind.
"""

import contextlib
import os
import signal
import subprocess
import sys
from types import TracebackType
from typing import IO, Self


class Reaper:
    """A context; `watch` what is started, `forget` what has ended. Leaving it kills what is still watched."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-E", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            self._process.wait()

    def watch(self, group: int) -> None:
        """Kill this process group when the owner is gone."""
        self._tell(f"+{group}\n")

    def forget(self, group: int) -> None:
        """This group has ended; its number may soon be another's."""
        self._tell(f"-{group}\n")

    def _tell(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):  # a killed reaper reaps nothing, and the experiment goes on
                self._process.stdin.write(line.encode())
                self._process.stdin.flush()


def kill_group(group: int) -> None:
    """SIGKILL for every process of the group; none left is no error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def reap(lines: IO[str]) -> None:
    """Read `+group` and `-group` until the writer is gone, then kill what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in lines:
        group = int(line[1:])
        (groups.add if line[0] == "+" else groups.discard)(group)
    for group in groups:
        kill_group(group)


if __name__ == "__main__":
    reap(sys.stdin)
