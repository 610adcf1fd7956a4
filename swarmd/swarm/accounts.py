"""Accounts of forwarders: what each sent, with what verdict, and how fast it may send. Budgets of the work that authors make."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from swarmd.fair.bucket import Bucket
from swarmd.recent import Recent
from swarmd.trust.evidence import SIGNED_RULES, Evidence

# Forwarders remembered, connected or not: 50 KB.
FORWARDERS_MAX = 500
# Pairs of peer and evidence held for the daemon, which asks every second. There are at most 150 connections.
ACCUSED_MAX = 1024

# Authors whose budget is remembered: 1 MB. A forgotten author begins with a full budget, as a new name does.
AUTHORS_MAX = 4096
# CPU of one author: a hundredth of a core, and a fifth of a second at once. An honest batch takes 0.3 to 2 ms: an author has
# five a second or more, and a hundred in a row. The dearest takes 13 ms. Accepted messages go on to all nodes, so a hundred names
# that send the dearest fill a core of every node.
AUTHOR_CPU_RATE, AUTHOR_CPU_S_MAX = 0.01, 0.2
# Rules that run after the author's signature held. Before that, somebody else may have sent the message in the author's name.
_SIGNED = SIGNED_RULES | {"accepted", "body_blocks"}


@dataclass
class Account:
    """One forwarder; `bucket` holds the messages it may still send at once, `gave_at` is when its last one was accepted."""

    bucket: Bucket
    accepted: int = 0
    ignored: int = 0
    rejected: int = 0
    gave_at: float = -math.inf


class Accounts:
    """Accounts by peer id, the least recently active dropped first.

    Args:
        rate_max: messages a second that one forwarder may have validated, and `burst_max` at once. A peer at line rate would
            otherwise own the process: a message costs us a hundred times what it costs the sender.
    """

    def __init__(self, rate_max: float, burst_max: int) -> None:
        self._rate_max, self._burst_max = rate_max, burst_max
        self._by_peer: Recent[str, Account] = Recent(FORWARDERS_MAX)

    def of(self, peer_id: str, now: float) -> Account:
        account = self._by_peer.get(peer_id) or Account(Bucket.full(self._rate_max, self._burst_max, now))
        self._by_peer[peer_id] = account
        return account

    def allow(self, account: Account, now: float) -> bool:
        return account.bucket.take(1, now)

    def gave_at(self, peer_id: str) -> float:
        """When this peer last brought an accepted message."""
        account = self._by_peer.get(peer_id)
        return account.gave_at if account else -math.inf

    def get(self, peer_id: str) -> Account | None:
        return self._by_peer.get(peer_id)


class AuthorBudgets:
    """CPU seconds that the rules may take for an author's messages, whoever brings them."""

    def __init__(self) -> None:
        self._by_author: Recent[bytes, Bucket] = Recent(AUTHORS_MAX)

    def refuse(self, author: bytes | None, now: float) -> bool:
        """Whether the author that a message names is to wait. A message that names none goes to the rules."""
        bucket = None if author is None else self._by_author.get(author)
        return bucket is not None and not bucket.holds(0.0, now)

    def charge(self, author: bytes | None, rule: str, cpu_s: float, now: float) -> None:
        """Charge the CPU time that judging took, if `rule` says that the author signed the message."""
        if author is None or rule not in _SIGNED:
            return
        bucket = self._by_author.get(author) or Bucket.full(AUTHOR_CPU_RATE, AUTHOR_CPU_S_MAX, now)
        bucket.charge(cpu_s, now)
        self._by_author[author] = bucket


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
