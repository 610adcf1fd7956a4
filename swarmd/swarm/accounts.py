"""What each forwarder sent us and what became of it, and how fast it may send."""

from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from swarmd.trust.bucket import Bucket
from swarmd.trust.evidence import Evidence

# Forwarders remembered, connected or not. Double is another 50 KB.
FORWARDERS_MAX = 500
# Accused at a time; the daemon asks every second, and 150 connections are the most there are.
ACCUSED_MAX = 1024


@dataclass
class Account:
    """One forwarder; `bucket` holds the messages it may still send at once."""

    bucket: Bucket
    accepted: int = 0
    ignored: int = 0
    rejected: int = 0


class Accounts:
    """Accounts by peer id, the least recently active dropped first.

    Args:
        rate_max: messages a second that one forwarder may have validated, and `burst_max` at once. A peer at line rate would
            otherwise own the process: a message costs us a hundred times what it costs the sender.
    """

    def __init__(self, rate_max: float, burst_max: int) -> None:
        self._rate_max, self._burst_max = rate_max, burst_max
        self._by_peer: OrderedDict[str, Account] = OrderedDict()

    def of(self, peer_id: str, now: float) -> Account:
        """The account, opened when there is none."""
        account = self._by_peer.get(peer_id)
        if account is None:
            account = self._by_peer[peer_id] = Account(Bucket.full(self._rate_max, self._burst_max, now))
            if len(self._by_peer) > FORWARDERS_MAX:
                self._by_peer.popitem(last=False)
        self._by_peer.move_to_end(peer_id)
        return account

    def allow(self, account: Account, now: float) -> bool:
        """Whether one more message of this forwarder may be looked at."""
        return account.bucket.take(1, now)

    def get(self, peer_id: str) -> Account | None:
        """The account, if that peer ever sent anything."""
        return self._by_peer.get(peer_id)


class Accusations:
    """Evidence that the daemon has not asked for yet: who, of what, how often."""

    def __init__(self) -> None:
        self._found: Counter[tuple[bytes, Evidence]] = Counter()

    def add(self, found: Iterable[tuple[bytes, Evidence]]) -> None:
        """Note it, once for each pair; past `ACCUSED_MAX` pairs no further ones."""
        for pair in found:
            if pair in self._found or len(self._found) < ACCUSED_MAX:
                self._found[pair] += 1

    def take(self) -> list[tuple[bytes, Evidence, int]]:
        """All of it, which is forgotten here."""
        found, self._found = self._found, Counter()
        return [(key, evidence, num) for (key, evidence), num in found.items()]
