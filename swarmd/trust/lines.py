"""Lines: who answers for a message that came, and whether it shares its scoring time with others."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from swarmd.protocol.manifest import Limits
from swarmd.protocol.wire import named_author
from swarmd.trust.peer_key import peer_id_of_key
from swarmd.trust.trust import Trust


class Line(NamedTuple):
    """Who answers for a message: its author by public key, or where it is `relayed` the peer that brought it, by peer id.

    `shares` says whether its quota is that of all who are not proven.
    """

    peer: bytes
    relayed: bool
    shares: bool


@dataclass(frozen=True)
class Lines:
    """A proven author answers for itself, and so does an author that is connected, whoever brings its messages.

    For all others their bringer does: connections are few to an address, names cost nothing.
    """

    trust: Trust
    limits: Limits
    now_ms: Callable[[], int]

    def of(self, message: bytes, bringer: str, *, author_connected: bool) -> tuple[Line, bytes]:
        """The line of a message, and its author: empty where it names none, which ingest counts."""
        author = named_author(message, self.limits)
        if author is None:
            return Line(bringer.encode(), relayed=True, shares=True), b""
        if self.trust.standings.proven(author):
            return Line(author, relayed=False, shares=False), author
        if author_connected or peer_id_of_key(author) == bringer:
            return Line(author, relayed=False, shares=True), author
        return Line(bringer.encode(), relayed=True, shares=True), author

    def held(self) -> bool:
        """Whether those who share a quota have to wait for it. Who used up its own is refused at its turn."""
        return self.trust.quotas.exhausted(self.now_ms() / 1000)
