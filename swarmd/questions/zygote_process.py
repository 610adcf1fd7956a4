"""The service's side of the zygote: start it, ask it, and start another when it is gone.

The zygote is exec'd, never forked. Its environment is its own: hash seed, locale and thread counts are the same on every node. Two
threads may ask it, one request at a time.
"""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import swarmd
from swarmd.errors import BY_NAME, LocalError
from swarmd.questions.channel import Channel

# Seconds to start. Importing and testing all 34 datasets takes 0.7 s of CPU; four nodes that start on one busy core need a
# multiple.
START_S_MAX = 60.0
# Regenerating costs 0.03 to 3 ms a question, a fork 1 ms; 4,096 of the slowest are 12 s.
ANSWER_S_MAX = 30.0


class ZygoteDied(Exception):
    """The zygote ended or stopped answering; `ZygoteProcess.replace` makes another."""


class ZygoteProcess:
    """A running zygote; `close` or the end of this process ends it and its workers."""

    def __init__(self, setup: Mapping[str, Any], module: str = "swarmd.questions.zygote") -> None:
        self._setup, self._module = dict(setup), module
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._one_at_a_time = threading.RLock()
        self.num_starts = 0
        """Also the number of the zygote that runs."""
        self.workers_cpu_s = 0.0
        """CPU seconds of all workers so far, for measurements."""

    @property
    def pid(self) -> int | None:
        """Process id while one runs."""
        return self._process.pid if self._process else None

    def start(self) -> dict[str, Any]:
        """End the running zygote, if any, start one and wait until it is warm; returns what it reports.

        Raises:
            SwarmdError: what the zygote refused (dataset, parameters, self-test).
            LocalError: it did not come up.
        """
        with self._one_at_a_time:
            return self._start()

    def replace(self, number: int) -> None:
        """Start another in the place of the one of this number, unless another thread did.

        Raises: as `start`.
        """
        with self._one_at_a_time:
            if self.num_starts == number:
                self._start()

    def _start(self) -> dict[str, Any]:
        self.close()
        self.num_starts += 1
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-s", "-m", self._module, str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], env=_environment()
            )
        self._channel = Channel(ours)
        try:
            reply = self._exchange(self._setup, None, START_S_MAX)
        except ZygoteDied as error:
            raise LocalError(
                "the scorer's zygote did not start",
                f"it ended, or was silent for {START_S_MAX:.0f} s",
                "its own messages are in the log",
            ) from error
        if refused := reply.get("error"):
            self.close()
            raise BY_NAME.get(refused["kind"], LocalError)(refused["what"], refused["why"], refused["fix"])
        return reply

    def ask(
        self, request: Mapping[str, Any], fd: int | None = None, *, of: int | None = None
    ) -> dict[str, Any]:
        """One request, one reply; with it `zygote`, the number of the one that answered, and `cpu_s`, what it computed for it.

        Args:
            of: which zygote is meant, where a process id of its workers is named: to another it would mean nothing.

        Raises:
            ZygoteDied: no answer within `ANSWER_S_MAX`, it ended, or another came after it.
        """
        with self._one_at_a_time:
            if of not in (None, self.num_starts):
                raise ZygoteDied
            reply = self._exchange(request, fd, ANSWER_S_MAX)
            self.workers_cpu_s += reply["worker_cpu_s"]
            return {**reply, "zygote": self.num_starts}

    def close(self) -> None:
        """Kill the zygote, and with it its workers."""
        with self._one_at_a_time:
            if self._channel is not None:
                self._channel.close()
                self._channel = None
            if self._process is not None:
                self._process.kill()
                self._process.wait()
                self._process = None

    def _exchange(self, request: Mapping[str, Any], fd: int | None, seconds: float) -> dict[str, Any]:
        if self._channel is None:
            raise ZygoteDied
        ends = time.monotonic() + seconds
        try:
            self._channel.send(request, fd, ends)
            reply: dict[str, Any] = self._channel.receive(ends)[0]
        except (EOFError, TimeoutError, ValueError) as error:
            self.close()
            raise ZygoteDied from error
        return reply


def _environment() -> dict[str, str]:
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {
        "PATH": os.defpath,
        "PYTHONPATH": str(Path(swarmd.__file__).parent.parent),
        "PYTHONHASHSEED": "0",
        "LC_ALL": "C.UTF-8",
        **threads,
    }
