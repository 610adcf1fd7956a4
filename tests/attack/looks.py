"""What can be seen of an honest node from outside: its status, its peers, its metrics, its processes' CPU time, its records."""

import itertools
import json
import os
import time
import urllib.request
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swarmd.experiment.swarms.local_swarm import LocalNode
from swarmd.trust.peer_key import peer_id_of_key
from swarmd.trust.standing import Standings
from swarmd.trust.standings_file import decode_into
from tests.e2e.watch import descendants

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PARTS = ("daemon", "network", "scorer")


@dataclass(frozen=True)
class Look:
    """One node at one moment; everything that counts counts from its start.

    Attributes:
        cpu_s: by part, the scorer's with its workers.
        restarts: children replaced, and lives of the network's objects ended.
        rejected_of, accepted_of: messages by the forwarder's peer id.
        stored_of, used_of: rollouts by the author's peer id; stored is what is held now.
        metrics: those with labels as `name{label}`.
    """

    name: str
    running: bool
    answers: bool
    round: int = 0
    cpu_s: Mapping[str, float] = field(default_factory=dict)
    restarts: int = 0
    rules: Mapping[str, int] = field(default_factory=dict)
    stats: Mapping[str, Any] = field(default_factory=dict)
    peers: frozenset[str] = frozenset()
    rejected_of: Mapping[str, int] = field(default_factory=dict)
    stored_of: Mapping[str, int] = field(default_factory=dict)
    used_of: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def unscored(self) -> dict[str, float]:
        """Completions that got 0 without being wrong, by reason."""
        start = 'verify_failures_total{reason="'
        return {
            name.removeprefix(start).removesuffix('"}'): num
            for name, num in self.metrics.items()
            if name.startswith(start)
        }


@dataclass(frozen=True)
class Book:
    """What a node remembers of others, by peer id: rollouts of theirs that it scored, bans for points, over or not, and
    what was proven by them."""

    num_scored: Mapping[str, int]
    num_bans: Mapping[str, int]
    proof: Mapping[str, float] = field(default_factory=dict)


def look(node: LocalNode) -> Look:
    """A look at a node; one that does not answer shows only whether its process is there."""
    status = node.ask("/v1/status")
    if not status or node.process is None:
        return Look(node.name, node.running, False)
    peers = (node.ask("/v1/peers") or {}).get("peers", [])
    workers, stats = status["workers"], status["network"]["stats"]
    pids = {name: worker["pid"] for name, worker in workers.items()}
    return Look(
        name=node.name,
        running=node.running,
        answers=True,
        round=status["round"],
        cpu_s={
            "daemon": process_cpu_s(node.process.pid),
            "network": process_cpu_s(pids.get("network")),
            "scorer": tree_cpu_s(pids.get("scorer")),
        },
        restarts=sum(worker["restarts"] for worker in workers.values()) + stats.get("host_deaths", 0),
        rules=stats.get("verdicts", {}),
        stats=stats,
        peers=frozenset(peer["peer_id"] for peer in peers),
        rejected_of={peer["peer_id"]: peer["rejected"] for peer in peers},
        stored_of=status["buffer"].get("by_author", {}),
        used_of=status["rollouts"]["used_by_author"],
        metrics=metrics_of(status["metrics"]),
    )


def patient_look(node: LocalNode, patience_s: float = 30.0) -> Look:
    """A look at a node that may be slow to answer."""
    deadline = time.monotonic() + patience_s
    while not (found := look(node)).answers and node.running and time.monotonic() < deadline:
        time.sleep(0.5)
    return found


def metrics_of(url: str) -> dict[str, float]:
    """Every sample of a node's /metrics; empty when it does not answer in time."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return parse_metrics(answer.read().decode().splitlines())
    except OSError:
        return {}


def parse_metrics(lines: Iterable[str]) -> dict[str, float]:
    """Samples of the exposition text by name and labels, as they are written there."""
    pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
    return {name.removeprefix("swarmd_"): float(value) for name, value in pairs}


def process_cpu_s(pid: int | None, *, with_dead_children: bool = False) -> float:
    """CPU time of one process, 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11 : 15 if with_dead_children else 13])) * _TICK_S


def tree_cpu_s(pid: int | None) -> float:
    """CPU time of a process, of all below it, and of those below it that have ended and were waited for."""
    if pid is None:
        return 0.0
    return sum(process_cpu_s(one, with_dead_children=True) for one in {pid, *descendants(pid)})


def records(node: LocalNode) -> list[dict[str, Any]]:
    """The node's rounds, from its file."""
    path = node.data_dir.rounds
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def book(node: LocalNode) -> Book:
    """What the node's file of standings says; nothing when there is none.

    Raises:
        ValueError: it is not what a node writes.
    """
    path, found = node.data_dir.standings, Standings(proven_rollouts=0)
    if path.exists():
        decode_into(found, path.read_bytes(), time.time())
    return Book(
        {peer_id_of_key(author): one.num_scored for author, one in found.authors()},
        {peer_id_of_key(peer): one.num_bans for peer, one in found.offences.by_peer.items()},
        {peer_id_of_key(author): one.proof for author, one in found.authors()},
    )


def gaps(rounds: Iterable[int]) -> list[int]:
    """Rounds after which the next one written down was not the next one."""
    numbers = list(rounds)
    return [one for one, other in itertools.pairwise(numbers) if other != one + 1]


def words_of_trouble(output: str) -> Counter[str]:
    """What a node says only when a round, a batch or a child of its own is lost."""
    signs = ("failed and was skipped", "a generation is lost", "Traceback", "child lost")
    return Counter({sign: output.count(sign) for sign in signs if sign in output})


def losses(nodes: Sequence[LocalNode]) -> tuple[dict[str, list[int]], dict[str, str]]:
    """By node: gaps in its rounds, and its words of trouble."""
    missing = {node.name: gaps(record["round"] for record in records(node)) for node in nodes}
    said = {node.name: words_of_trouble(node.output()) for node in nodes}
    return missing, {
        name: ", ".join(f"{sign!r} {num}x" for sign, num in signs.items()) for name, signs in said.items()
    }
