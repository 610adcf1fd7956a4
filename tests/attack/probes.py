"""What Prometheus, a probe and the operator ask of every node while it is attacked, and whether they were answered."""

import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from swarmd.control.client import ask
from swarmd.errors import SwarmdError
from swarmd.experiment.swarms.local_swarm import LocalNode

# As patient as `looks.patient_look`: everything at once on two busy cores is slow. The slowest answer is told.
ANSWER_S = 30.0
PACE_S = 1.0


@dataclass
class Probed:
    """Questions put, those that got no answer by node and path, and the slowest answer."""

    num: int = 0
    unanswered: list[str] = field(default_factory=list)
    slowest_s: float = 0.0


class Probes:
    """A context: every node is asked for /healthz and /metrics on its port and for its status on its socket, again and again."""

    def __init__(self, nodes: Sequence[LocalNode], local_ports: Sequence[int]) -> None:
        self._targets = [
            (node, f"http://127.0.0.1:{port}") for node, port in zip(nodes, local_ports, strict=True)
        ]
        self.found = Probed()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask_all, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _ask_all(self) -> None:
        while True:
            for node, url in self._targets:
                self._note(f"{node.name} /healthz", partial(_got, f"{url}/healthz"))
                self._note(f"{node.name} /metrics", partial(_got, f"{url}/metrics"))
                self._note(f"{node.name} /v1/status", partial(_told, node))
            if self._over.wait(PACE_S):
                return

    def _note(self, what: str, is_answered: Callable[[], bool]) -> None:
        began = time.monotonic()
        if not is_answered():
            self.found.unanswered.append(what)
        self.found.num += 1
        self.found.slowest_s = max(self.found.slowest_s, time.monotonic() - began)


def local_port(node: LocalNode) -> int:
    """Where a node that answers has its metrics.

    Raises:
        RuntimeError: it does not answer.
    """
    if not (status := node.ask("/v1/status")):
        raise RuntimeError(f"{node.name} does not answer\n{node.output()[-1000:]}")
    return int(urlsplit(status["metrics"]).port or 0)


def _told(node: LocalNode) -> bool:
    try:
        return bool(ask(node.data_dir.socket, "/v1/status", timeout_s=ANSWER_S))
    except SwarmdError:
        return False


def _got(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_S) as answer:
            return bool(answer.read())
    except (OSError, ValueError):
        return False
