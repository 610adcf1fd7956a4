"""Shown: what the loops tell of the node to whoever asks for its status.

Each part is frozen and replaced whole by the one loop that writes it. `swarmd.node.status` reads them all.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from swarmd.errors import SwarmdError


@dataclass(frozen=True)
class NetworkShown:
    """The network process as `observe` saw it last: a row for each connection, and the process's running totals."""

    peers: Sequence[Mapping[str, Any]] = ()
    stats: Mapping[str, Any] = field(default_factory=dict)

    @property
    def num_peers(self) -> int:
        """Connected peers; two connections to one peer count once."""
        return len({peer["peer_id"] for peer in self.peers})


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
    """`dropped` are batches that `ingest` left unscored, by reason. The errors of `generate` and of the last checkpoint stand until
    a generation batch and a checkpoint succeed.
    """

    network: NetworkShown = field(default_factory=NetworkShown)
    buffer: BufferShown = field(default_factory=BufferShown)
    authors: AuthorsShown = field(default_factory=AuthorsShown)
    canary: CanaryShown = field(default_factory=CanaryShown)
    dropped: Counter[str] = field(default_factory=Counter)
    generate_error: SwarmdError | None = None
    checkpoint_error: SwarmdError | None = None
