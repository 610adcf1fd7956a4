"""Quotas: how much of this node's bandwidth, training text and scoring time one author may use.

A proven author has buckets of its own. All others draw from one set of buckets together: an identity costs nothing, so twenty new
identities get no more than one. A batch over quota is dropped and counted. That is no offence, and gives no points.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from swarmd.fair.bucket import Bucket
from swarmd.protocol.types import Completion, RolloutBatch
from swarmd.recent import Recent

Quota = Literal["bytes", "tokens", "cpu"]
QUOTAS: tuple[Quota, ...] = ("bytes", "tokens", "cpu")
# The group of all authors who are not proven. No public key is empty.
UNPROVEN = b""
# Sets of buckets remembered, 500 bytes each, as many as authors. The set used longest ago is forgotten; it would be full by then.
GROUPS_MAX = 4096
# A bucket must hold this much where the amount is not known yet or may become a debt: a byte, a token, a millisecond.
AMOUNT_MIN = 1.0
# The most that one batch may take of a shared bucket, in seconds of its rate: 128 KiB and 32,768 tokens. That is twice the largest
# message, and four times what a node of the paper's size sends.
SHARED_S_MAX = 1.0
# Bytes of text to a token where the author claims fewer: tokenizers of today make one of about four.
TOKEN_BYTES = 4


@dataclass(frozen=True)
class QuotaLimits:
    """The rate of each quota, and how many seconds of that rate a bucket holds."""

    bytes_per_s: float
    tokens_per_s: float
    cpu_ms_per_s: float
    burst_s: float

    def of(self, quota: Quota) -> float:
        return {"bytes": self.bytes_per_s, "tokens": self.tokens_per_s, "cpu": self.cpu_ms_per_s}[quota]


class Quotas:
    """The buckets of all authors.

    Args:
        limits: None lets everything pass.
        proven: whether an author has a bucket of its own.
    """

    def __init__(self, limits: QuotaLimits | None, proven: Callable[[bytes], bool]) -> None:
        self._limits, self._proven = limits, proven
        self._groups: Recent[bytes, dict[Quota, Bucket]] = Recent(GROUPS_MAX)

    def group(self, author: bytes) -> bytes:
        """The owner of the buckets that this author draws from: itself, or all the unproven."""
        return author if self._proven(author) else UNPROVEN

    def exhausted(self, now: float) -> bool:
        """Whether one of the shared quotas is used up."""
        if self._limits is None:
            return False
        buckets = self._buckets(UNPROVEN, self._limits, now)
        return not all(buckets[quota].holds(AMOUNT_MIN, now) for quota in QUOTAS)

    def take(self, author: bytes, *, size_bytes: int, num_tokens: int, now: float) -> Quota | None:
        """Take a batch out of the author's buckets. Returns the quota that the batch is over, and takes nothing then.

        Scoring time is charged afterwards; here a millisecond of it must be left. Shared buckets give room to any batch while
        something is left, if the batch is at most a second of the rate. A flood of small batches would otherwise leave room for
        small batches only.
        """
        if self._limits is None:
            return None
        group = self.group(author)
        buckets = self._buckets(group, self._limits, now)
        wanted: dict[Quota, float] = {"bytes": size_bytes, "tokens": num_tokens, "cpu": AMOUNT_MIN}
        shares = group == UNPROVEN
        for quota in QUOTAS:
            if shares and wanted[quota] > self._limits.of(quota) * SHARED_S_MAX:
                return quota
            if not buckets[quota].holds(AMOUNT_MIN if shares else wanted[quota], now):
                return quota
        buckets["bytes"].charge(size_bytes, now)
        buckets["tokens"].charge(num_tokens, now)
        return None

    def charge_scoring(self, author: bytes, seconds: float, now: float) -> None:
        """Charge the time for which scoring this author's batch took a core, or a place that another batch could have had."""
        if self._limits is not None and seconds > 0:
            self._buckets(self.group(author), self._limits, now)["cpu"].charge(seconds * 1000, now)

    def _buckets(self, group: bytes, limits: QuotaLimits, now: float) -> dict[Quota, Bucket]:
        buckets = self._groups.get(group) or {
            quota: Bucket.full(limits.of(quota), limits.of(quota) * limits.burst_s, now) for quota in QUOTAS
        }
        self._groups[group] = buckets
        return buckets


def tokens_of(batch: RolloutBatch) -> int:
    """The tokens that a batch would train on."""
    return sum(_tokens_of(completion) for rollout in batch.rollouts for completion in rollout.completions)


def _tokens_of(completion: Completion) -> int:
    """The tokens that a completion claims, at most one a byte and an end token, at least one for four bytes, and at least 1."""
    size_bytes = len(completion.text.encode())
    claimed = min(completion.num_tokens or 0, size_bytes + 1)
    return max(claimed, -(-size_bytes // TOKEN_BYTES), 1)
