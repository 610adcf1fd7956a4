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
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import swarmd
from swarmd.clients.scorer import Address, ScoreItem
from swarmd.errors import Failure, LocalError
from swarmd.questions.channel import Channel
from swarmd.questions.extract import AnswerFormat
from swarmd.questions.regenerate import DatasetChoice
from swarmd.questions.sandbox import SandboxMode

# Seconds to start. Importing and testing all datasets on offer takes 0.7 s of CPU; four nodes that start on one busy core need a
# multiple.
START_S_MAX = 60.0
# Regenerating costs 0.03 to 3 ms a question, a fork 1 ms; 4,096 of the slowest are 12 s.
ANSWER_S_MAX = 30.0


Op = Literal["questions", "known", "expected", "fork", "end"]


@dataclass(frozen=True)
class Setup:
    """The zygote's first message. With `seal` it compares nothing with the manifest's digests."""

    datasets: Sequence[DatasetChoice]
    answer_format: AnswerFormat
    sandbox: SandboxMode = "off"
    seal: bool = False
    seccomp: bool = True

    @classmethod
    def of(cls, sent: dict[str, Any]) -> Self:
        """The setup that was sent as its `asdict`."""
        return cls(**sent | {"datasets": [DatasetChoice(**choice) for choice in sent["datasets"]]})


class Forked(NamedTuple):
    """A worker, and the number of the zygote that forked it: to another zygote the process id means nothing."""

    pid: int
    zygote: int
    cpu_s: float


class Ended(NamedTuple):
    """A worker's exit status, and what it computed itself."""

    status: int
    worker_cpu_s: float
    cpu_s: float


class ZygoteDied(Exception):
    """The zygote ended or stopped answering; `ZygoteProcess.replace` makes another."""


class ZygoteProcess:
    """A running zygote; `close` or the end of this process ends it and its workers."""

    def __init__(self, setup: Setup, module: str = "swarmd.questions.zygote") -> None:
        self._setup, self._module = setup, module
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._one_at_a_time = threading.RLock()
        self.num_starts = 0
        """Also the number of the zygote that runs."""
        self.workers_cpu_s = 0.0
        """CPU seconds of all workers so far, for measurements."""

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> list[str]:
        """End the running zygote, if any, start one and wait until it is warm; returns the datasets' golden digests.

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

    def _start(self) -> list[str]:
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
            goldens, refused = self._exchange(asdict(self._setup), None, START_S_MAX)
        except ZygoteDied as error:
            raise LocalError(
                "the scorer's zygote did not start",
                f"it ended, or was silent for {START_S_MAX:.0f} s",
                "its own messages are in the log",
            ) from error
        if refused:
            self.close()
            raise Failure(*refused).error()
        return list(goldens)

    # Each of these raises ZygoteDied: no answer within `ANSWER_S_MAX`, the zygote ended, or another came after it.

    def questions(self, addresses: Sequence[Address]) -> tuple[list[str | None], float]:
        """The question at each address, None where there is none, and the CPU seconds of all."""
        return self._ask("questions", addresses)

    def known(self) -> list[ScoreItem]:
        """Our own texts for known items of every dataset."""
        return [ScoreItem(*known) for known in self._ask("known")[0]]

    def expected(self) -> list[list[tuple[float, int]]]:
        """Reward and reason of each known text, from the zygote, which is not locked down."""
        scores: list[list[tuple[float, int]]] = self._ask("expected")[0]
        return scores

    def fork(self, items: Sequence[ScoreItem], fd: int) -> Forked:
        """A worker for these items, that talks over a copy of `fd`."""
        with self._one_at_a_time:
            pid, cpu_s = self._ask("fork", [(item.dataset, item.seed) for item in items], fd)
            return Forked(pid, self.num_starts, cpu_s)

    def end(self, worker: Forked) -> Ended:
        """Kill a worker."""
        with self._one_at_a_time:
            if worker.zygote != self.num_starts:
                raise ZygoteDied
            (status, worker_cpu_s), cpu_s = self._ask("end", worker.pid)
            self.workers_cpu_s += worker_cpu_s
            return Ended(status, worker_cpu_s, cpu_s)

    def _ask(self, op: Op, asked: object = None, fd: int | None = None) -> tuple[Any, float]:
        """The answer, and the CPU seconds that it took the zygote."""
        with self._one_at_a_time:
            answer, cpu_s = self._exchange([op, asked], fd, ANSWER_S_MAX)
            return answer, cpu_s

    def close(self) -> None:
        with self._one_at_a_time:
            if self._channel is not None:
                self._channel.close()
                self._channel = None
            if self._process is not None:
                self._process.kill()
                self._process.wait()
                self._process = None

    def _exchange(self, request: object, fd: int | None, seconds: float) -> tuple[Any, Any]:
        if self._channel is None:
            raise ZygoteDied
        ends = time.monotonic() + seconds
        try:
            self._channel.send(request, fd, ends)
            first, second = self._channel.receive(ends)[0]
        except (EOFError, TimeoutError, ValueError) as error:
            self.close()
            raise ZygoteDied from error
        return first, second


def _environment() -> dict[str, str]:
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {
        "PATH": os.defpath,
        "PYTHONPATH": str(Path(swarmd.__file__).parent.parent),
        "PYTHONHASHSEED": "0",
        "LC_ALL": "C.UTF-8",
        **threads,
    }
