"""Flows: who answers for a message that came, and whether the message shares its scoring time with others."""

from collections.abc import Callable
from dataclasses import dataclass

from swarmd.fair.flow import Flow, flow_of
from swarmd.protocol.manifest import Limits
from swarmd.protocol.wire import named_author
from swarmd.trust.peer_key import peer_id_of_key
from swarmd.trust.trust import Trust


@dataclass(frozen=True)
class Flows:
    """A proven author answers for itself and shares with nobody. `flow_of` says who answers for all others."""

    trust: Trust
    limits: Limits
    now_ms: Callable[[], int]

    def of(self, message: bytes, bringer: str, *, author_connected: bool) -> tuple[Flow, bytes]:
        """The flow of a message, and its author: empty where the message names none, which ingest counts."""
        author = named_author(message, self.limits)
        if author is None:
            return Flow(bringer.encode(), own=False), b""
        if self.trust.standings.proven(author):
            return Flow(author, own=True, shares=False), author
        peer_id = peer_id_of_key(author).encode()
        return flow_of(peer_id, bringer.encode(), connected=author_connected), author

    def held(self) -> bool:
        """Whether those who share a quota have to wait for it. An author that used up its own quota is refused at its turn."""
        return self.trust.quotas.exhausted(self.now_ms() / 1000)
