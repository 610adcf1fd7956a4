"""Gossip in memory: the network child's operations and events for many nodes of one process, without a network.

A port answers what `swarmd.swarm.service` answers, by the same rules; `tests/experiment/test_gossip.py` holds both to one contract.
"""

from collections import Counter
from collections.abc import Callable

from swarmd.clients.events import Accepted
from swarmd.clients.network import (
    Accusation,
    NetworkInfo,
    NetworkOps,
    NetworkStats,
    Outside,
    Peer,
    Reach,
    Traffic,
)
from swarmd.errors import LocalError
from swarmd.protocol.manifest import Manifest
from swarmd.protocol.rules import VERDICT_OF, Verdict, validate
from swarmd.protocol.seen import Seen

Emit = Callable[[Accepted], None]


class MemoryGossip:
    """One topic. A message reaches every other port before `publish` returns, in the order of publishing."""

    def __init__(self, manifest: Manifest, now_ms: Callable[[], int]) -> None:
        self.manifest, self.now_ms = manifest, now_ms
        self.seen = Seen()
        self.ports: list[GossipPort] = []

    def join(self, peer_id: str, emit: Emit) -> "GossipPort":
        """A port for one node; `emit` takes each message of another."""
        port = GossipPort(self, peer_id, emit)
        self.ports.append(port)
        return port


class GossipPort(NetworkOps):
    """One node's access to the topic: the operations of the network child."""

    def __init__(self, gossip: MemoryGossip, peer_id: str, emit: Emit) -> None:
        self._gossip, self.peer_id, self.emit = gossip, peer_id, emit
        self.counters: Counter[str] = Counter()
        self.rules: Counter[str] = Counter()

    def start(self) -> NetworkInfo:
        """It listens nowhere."""
        return NetworkInfo(self.peer_id, [], self._gossip.manifest.topic)

    async def publish(self, data: bytes) -> Reach:
        """Give a sealed message to all others.

        A message may be published again, and then reaches nobody twice.

        Raises:
            LocalError: the rules would refuse it, so everybody would.
        """
        gossip = self._gossip
        outcome = validate(data, now_ms=gossip.now_ms(), seen=gossip.seen, manifest=gossip.manifest)
        repeated = outcome.rule == "duplicate"
        if outcome.verdict is not Verdict.ACCEPT and not repeated:
            self.counters["publish_refused"] += 1
            raise LocalError(f"own message refused by rule {outcome.rule}: {outcome.detail}")
        others = [port for port in gossip.ports if port is not self]
        if not repeated:
            for port in others:
                port.take(data)
        self.counters["published"] += 1
        self.counters["published_bytes"] += len(data)
        return Reach(len(others), len(others))

    def take(self, data: bytes) -> None:
        """A message of another port, judged already: the rules are the same for all, and so is the clock."""
        self.counters["received"] += 1
        self.rules["accepted"] += 1
        self.emit(Accepted(data, forwarder="", author_connected=True))

    async def peers(self) -> list[Peer]:
        return [Peer(port.peer_id, "outbound") for port in self._gossip.ports if port is not self]

    async def stats(self) -> NetworkStats:
        """Totals since the start, by the rule that decided."""
        num_others = len(self._gossip.ports) - 1
        return NetworkStats(
            received=self.counters["received"],
            rate_limited=0,
            banned_connections=0,
            banned_messages=0,
            blacklisted=0,
            verdicts={rule: self.rules[rule] for rule in VERDICT_OF},
            reach=Reach(num_others, num_others),
            traffic=Traffic.none(),
            heartbeat_lag_s=0.0,
            num_tasks=0,
            bootstrap={},
            outside=Outside.unknown(),
            others={
                "peers": num_others,
                **{name: self.counters[name] for name in ("published", "published_bytes", "publish_refused")},
            },
        )

    async def ban(self, keys: list[bytes]) -> int:
        """Nobody is banned in a simulation."""
        return 0

    async def accusations(self) -> list[Accusation]:
        """Nor accused."""
        return []
