"""Shown: what the loops tell of the node to whoever asks for its status.

Each part is frozen and replaced whole by the one loop that writes it. `swarmd.node.status` reads them all.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from swarmd.clients.network import NetworkStats, Peer
from swarmd.errors import SwarmdError
from swarmd.protocol.rules import VERDICT_OF, Verdict


@dataclass(frozen=True)
class NetworkShown:
    """The network process as `observe` saw it last: a row for each connection, and the process's running totals."""

    peers: Sequence[Peer] = ()
    stats: NetworkStats | None = None

    @property
    def num_peers(self) -> int:
        """Connected peers; two connections to one peer count once."""
        return len({peer.peer_id for peer in self.peers})

    def num(self, verdict: Verdict) -> int:
        """Messages that got this verdict; those that were not judged, since their sender had had its share, count as IGNORE."""
        if self.stats is None:
            return 0
        num = sum(num for rule, num in self.stats.verdicts.items() if VERDICT_OF[rule] is verdict)
        return num + (self.stats.rate_limited if verdict is Verdict.IGNORE else 0)


@dataclass(frozen=True)
class BufferShown:
    """The buffer as `observe` saw it last; `by_author` has the rollouts held of each peer id, of those who hold most."""

    num_rollouts: int = 0
    num_informative: int = 0
    size_bytes: int = 0
    by_author: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class AuthorsShown:
    """The standings as `bans` saw them last."""

    num_authors: int = 0
    num_proven: int = 0
    num_banned: int = 0


@dataclass(frozen=True)
class CanaryShown:
    """The canary's warnings: the policy's last fall until the next good measurement, and why not everybody may be drawn now."""

    fell: str = ""
    kept_out: str = ""


@dataclass
class Shown:
    """`dropped` are batches that `ingest` left unscored, by reason. The errors of `generate`, of the last checkpoint and of the
    last look at the buffer stand until the next one succeeds.
    """

    network: NetworkShown = field(default_factory=NetworkShown)
    buffer: BufferShown = field(default_factory=BufferShown)
    authors: AuthorsShown = field(default_factory=AuthorsShown)
    canary: CanaryShown = field(default_factory=CanaryShown)
    dropped: Counter[str] = field(default_factory=Counter)
    generate_error: SwarmdError | None = None
    checkpoint_error: SwarmdError | None = None
    buffer_error: SwarmdError | None = None
