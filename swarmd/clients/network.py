"""The network process: our messages to the swarm, its peers, and what they did wrong. Accepted messages come as events."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

from swarmd.clients.worker import Worker, ask

# One message. A network process that died is back within seconds, and one that hangs is replaced after this.
PUBLISH_S = 30.0


class Reach(NamedTuple):
    """`mesh_peers`: neighbours that take a message up at once and forward it; `subscribers`: connected peers of the swarm."""

    mesh_peers: int
    subscribers: int


class Peer(NamedTuple):
    """A connected peer, and what became of the messages that it brought. `rtt_s` is 0 until it was measured."""

    peer_id: str
    direction: str
    address: str = ""
    agent: str = ""
    rtt_s: float = 0.0
    connected_s: float = 0.0
    accepted: int = 0
    ignored: int = 0
    rejected: int = 0


class Traffic(NamedTuple):
    """What the connections carried, since the libp2p objects were made.

    Attributes:
        bytes_in, bytes_out: of all connections, encryption and framing included.
        num_duplicates: messages that came again, through another peer.
        dials: how our own dials ended, by reason.
        refused: inbound connections turned away: all places taken (`full`), those of its address or network taken (`address`), or
            it failed to become a connection (`failed`); and those closed because a newcomer took the place (`evicted`).
    """

    bytes_in: int
    bytes_out: int
    num_duplicates: int
    dials: dict[str, int]
    refused: dict[str, int]

    @classmethod
    def none(cls) -> "Traffic":
        """Where nothing was counted, or there are no connections."""
        return cls(0, 0, 0, {}, {})


class Outside(NamedTuple):
    """How this node looks from outside its own network.

    Attributes:
        reachable: whether peers out there can connect to it; None while none of them has tried.
        hosts: the IP addresses that they see it come from, the most common first.
        num_reached, num_failed: of those that tried within the last half hour.
    """

    reachable: bool | None
    hosts: tuple[str, ...]
    num_reached: int
    num_failed: int

    @classmethod
    def unknown(cls) -> "Outside":
        """Nobody outside has said anything."""
        return cls(None, (), 0, 0)


class NetworkStats(NamedTuple):
    """Counts of the network process since its start, and the present size of things.

    Attributes:
        rate_limited: messages that were not judged, because their peer or author had had its share.
        banned_connections, banned_messages: refused, of banned peers; `blacklisted` below the messages.
        verdicts: judged messages by the rule that decided.
        heartbeat_lag_s: how late gossip's heartbeat came.
        num_tasks: trio tasks of the process: each connection and stream has some.
        bootstrap: how the last dial of each bootstrap address ended.
        outside: whether strangers can connect to this node.
        others: more counts, for people.
    """

    received: int
    rate_limited: int
    banned_connections: int
    banned_messages: int
    blacklisted: int
    verdicts: dict[str, int]
    reach: Reach
    traffic: Traffic
    heartbeat_lag_s: float
    num_tasks: int
    bootstrap: dict[str, str]
    outside: Outside
    others: dict[str, object]

    def to_document(self) -> dict[str, object]:
        """All counts by name, for people and programs."""
        own = self._asdict()
        del own["others"], own["reach"], own["blacklisted"]
        return {
            **self.others,
            **own,
            **self.reach._asdict(),
            "traffic": self.traffic._asdict(),
            "outside": self.outside._asdict(),
        }


class Accusation(NamedTuple):
    """A peer did what no honest peer does: its key, a `trust.evidence.Evidence`, how often."""

    key: bytes
    evidence: str
    num: int


class NetworkInfo(NamedTuple):
    """A network process that listens."""

    peer_id: str
    addresses: list[str]
    topic: str


class NetworkOps(Protocol):
    """The operations of a network process."""

    OPS: ClassVar[frozenset[str]] = frozenset({"publish", "peers", "stats", "ban", "accusations"})

    async def publish(self, data: bytes) -> Reach:
        """Give a sealed message of ours to the swarm; says whom it reached, and nobody is no error."""

    async def peers(self) -> list[Peer]:
        """Connected peers."""

    async def stats(self) -> NetworkStats:
        """Counts since the start of the process."""

    async def ban(self, keys: list[bytes]) -> int:
        """From now on exactly these peers are banned; how many of them were connected."""

    async def accusations(self) -> list[Accusation]:
        """Accusations since the last call."""


@dataclass(frozen=True)
class Network:
    """Calls the operations of a network process, `NetworkOps`.

    All operations raise LocalError when the process died, and Temporary while its libp2p objects are made anew. They wait for a
    process that is being replaced: a loop that has other work bounds its wait.
    """

    worker: Worker

    async def publish(self, data: bytes) -> Reach:
        """Give a sealed message of ours to the swarm. Raises LocalError too when our own rules refuse it."""
        return await ask(self.worker, PUBLISH_S, NetworkOps.publish, data=data)

    async def peers(self) -> list[Peer]:
        return await ask(self.worker, None, NetworkOps.peers)

    async def stats(self, within_s: float | None = None) -> NetworkStats:
        return await ask(self.worker, within_s, NetworkOps.stats)

    async def ban(self, keys: list[bytes]) -> int:
        return await ask(self.worker, None, NetworkOps.ban, keys=keys)

    async def accusations(self) -> list[Accusation]:
        return await ask(self.worker, None, NetworkOps.accusations)
