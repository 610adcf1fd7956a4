"""Lines: who answers for a message that came, and whether it has to wait for scoring time."""

from dataclasses import dataclass
from typing import NamedTuple

from swarmd.loops.ports import NowMs
from swarmd.protocol.manifest import Limits
from swarmd.protocol.wire import WireError, decode_message
from swarmd.trust.peer_key import peer_id_of_key
from swarmd.trust.trust import Trust


class Line(NamedTuple):
    """Who answers for a message: its author by public key, or where it is `relayed` the peer that brought it, by peer id."""

    peer: bytes
    relayed: bool


@dataclass(frozen=True)
class Lines:
    """A proven author answers for itself, whoever brings its messages, and so does an author that brings them itself.

    For all others their bringer does: connections are few to an address, names cost nothing.
    """

    trust: Trust
    limits: Limits
    now_ms: NowMs

    def of(self, message: bytes, bringer: str) -> tuple[Line, bytes]:
        """The line of a message, and its author: empty where it names none, which ingest counts."""
        try:
            author = decode_message(message, self.limits).header.author
        except WireError:
            return Line(bringer.encode(), relayed=True), b""
        if self.trust.standings.proven(author) or peer_id_of_key(author) == bringer:
            return Line(author, relayed=False), author
        return Line(bringer.encode(), relayed=True), author

    def held(self, line: Line) -> bool:
        """Whether it has to wait: for scoring time that it shares with others. Who used up its own is refused at its turn."""
        shares = line.relayed or not self.trust.standings.proven(line.peer)
        return shares and self.trust.quotas.exhausted(self.now_ms() / 1000)
