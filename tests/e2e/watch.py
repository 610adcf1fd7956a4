"""Waiting for real nodes, with a bound and a useful message."""

import os
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from swarmd.experiment.swarms.local_swarm import LocalNode

# Two busy cores: a start takes half a minute, and several suites may share them.
PATIENCE_S = 300.0
FAST = (
    "--model", "tiny", "--device", "cpu",
    "--set", "policy.threads=1", "--set", "evaluate.num_questions=0",
)  # fmt: skip


def until(condition: Callable[[], Any], what: str, *nodes: LocalNode, patience_s: float = PATIENCE_S) -> Any:
    """The first true value of `condition`; fails with the nodes' last words when it does not come."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.2)
    words = "\n".join(f"--- {node.name}\n{node.output()[-1500:]}" for node in nodes)
    raise AssertionError(f"not within {patience_s:.0f} s: {what}\n{words}")


def status(node: LocalNode) -> dict[str, Any]:
    """The node's status, or an empty dict while it does not answer."""
    return node.ask("/v1/status") or {}


def rounds(node: LocalNode) -> int:
    """Rounds the node has completed."""
    return int(status(node).get("round", 0))


def metrics_text(node: LocalNode) -> str:
    """The node's own /metrics. Raises OSError while it does not answer."""
    with urllib.request.urlopen(status(node).get("metrics", ""), timeout=10) as response:
        return str(response.read().decode())


def restarts(node: LocalNode, worker: str) -> int:
    """How often this child process was replaced."""
    return int(status(node).get("workers", {}).get(worker, {}).get("restarts", -1))


def kill(node: LocalNode) -> None:
    """SIGKILL for the daemon alone; its children have to notice by themselves."""
    assert node.process is not None
    node.process.kill()
    node.process.wait()


def kill_daemon(node: LocalNode) -> None:
    """SIGKILL for the daemon, and then the end of all its children."""
    below = descendants(node.process.pid if node.process else 0)
    kill(node)
    until(lambda: not any(alive(pid) for pid in below), "the end of its children", node)


@contextmanager
def resting(*nodes: LocalNode) -> Iterator[None]:
    """Within the block these nodes' models stand still; they receive, score, share and answer as before.

    A node at work takes every core. Use this while something else is waited for. A model that stands still for most of a minute
    is replaced by its node, and works again.
    """
    pids = [
        until(
            lambda node=node: status(node).get("workers", {}).get("generation", {}).get("pid"),
            "a model",
            node,
        )
        for node in nodes
    ]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def descendants(pid: int) -> set[int]:
    """Every process below `pid`, at this moment."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rsplit(")", 1)[1].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    found, grown = {pid}, True
    while grown:
        more = {child for child, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return found - {pid}
