"""Quotas: a proven author has its own, all others share one, and what an honest fast node sends is far below them."""

import random

import pytest

from swarmd.config import Config
from swarmd.protocol.types import Completion, Rollout, RolloutBatch
from swarmd.trust.quotas import GROUPS_MAX, SHARED_S_MAX, UNPROVEN, QuotaLimits, Quotas, tokens_of

LIMITS = QuotaLimits(bytes_per_s=100, tokens_per_s=1000, cpu_ms_per_s=250, burst_s=10)
PROVEN, NEW = b"p" * 32, b"n" * 32
SETTINGS = Config().trust
DEFAULTS = QuotaLimits(
    SETTINGS.quota_bytes_per_s,
    SETTINGS.quota_tokens_per_s,
    SETTINGS.quota_cpu_ms_per_s,
    SETTINGS.quota_burst_s,
)


def quotas(limits: QuotaLimits | None = LIMITS) -> Quotas:
    return Quotas(limits, lambda author: author.startswith(b"p"))


def identity(number: int, *, proven: bool = False) -> bytes:
    return (b"p" if proven else b"n") + number.to_bytes(31, "big")


def passed(one: Quotas, author: bytes, num: int, *, size_bytes: int = 100, now: float = 0.0) -> int:
    """How many of `num` equal batches pass at one moment."""
    taken = [one.take(author, size_bytes=size_bytes, num_tokens=1, now=now) for _ in range(num)]
    return taken.count(None)


def test_twenty_new_identities_get_no_more_than_one() -> None:
    one, twenty = quotas(), quotas()
    alone = passed(one, NEW, 100)
    assert (alone, sum(passed(twenty, identity(n), 5) for n in range(20))) == (10, 10)


def test_a_flood_of_new_identities_costs_a_proven_author_nothing() -> None:
    one = quotas()
    for number in range(50):
        passed(one, identity(number), 10)
    assert passed(one, PROVEN, 10) == 10


def test_one_proven_author_does_not_use_anothers() -> None:
    one = quotas()
    assert passed(one, PROVEN, 100) == 10
    assert passed(one, identity(1, proven=True), 10) == 10


@pytest.mark.parametrize(
    ("size_bytes", "num_tokens", "reason"), [(1001, 1, "bytes"), (1, 10_001, "tokens"), (1000, 10_000, None)]
)
def test_the_quota_that_is_exceeded_is_named(size_bytes: int, num_tokens: int, reason: str | None) -> None:
    assert quotas().take(PROVEN, size_bytes=size_bytes, num_tokens=num_tokens, now=0.0) == reason


def test_a_batch_over_one_quota_is_taken_from_none() -> None:
    one = quotas()
    one.take(PROVEN, size_bytes=1000, num_tokens=10_001, now=0.0)
    assert one.take(PROVEN, size_bytes=1000, num_tokens=10_000, now=0.0) is None


def test_scoring_that_took_long_is_paid_off_at_the_rate() -> None:
    one = quotas()
    one.charge_scoring(
        NEW, 20.0, 0.0
    )  # 20 s against 2.5 s in the bucket: 17.5 s of debt, 70 s at a quarter of a core
    assert one.take(identity(2), size_bytes=1, num_tokens=1, now=70.0) == "cpu"
    assert one.take(identity(2), size_bytes=1, num_tokens=1, now=70.1) is None


def test_those_who_share_wait_for_scoring_time_and_nobody_else() -> None:
    one = quotas()
    one.charge_scoring(PROVEN, 20.0, 0.0)
    assert not one.exhausted(0.0)
    one.charge_scoring(NEW, 20.0, 0.0)
    assert one.exhausted(70.0)
    assert not one.exhausted(70.1)
    assert one.take(NEW, size_bytes=1, num_tokens=1, now=70.1) is None


def test_a_flood_of_small_batches_leaves_room_for_a_larger_one() -> None:
    """Of those who share, whoever's turn it is gets in while anything is left; dear batches hold all up for a second at most."""
    one = quotas()
    now = 0.0
    while not one.exhausted(now):
        assert one.take(identity(1), size_bytes=0, num_tokens=10, now=now) is None
    assert one.take(identity(2), size_bytes=1, num_tokens=900, now=now) == "tokens"
    now += 0.01
    assert not one.exhausted(now)
    assert one.take(identity(2), size_bytes=1, num_tokens=900, now=now) is None
    assert one.exhausted(now)
    assert not one.exhausted(now + SHARED_S_MAX)
    assert one.take(identity(3), size_bytes=1, num_tokens=1001, now=100.0) == "tokens"


def test_without_limits_everything_passes() -> None:
    one = quotas(None)
    one.charge_scoring(NEW, 1e9, 0.0)
    assert one.take(NEW, size_bytes=10**12, num_tokens=10**12, now=0.0) is None
    assert not one.exhausted(0.0)


def test_the_table_is_bounded() -> None:
    one = quotas()
    for number in range(GROUPS_MAX + 10):
        one.take(identity(number, proven=True), size_bytes=1, num_tokens=1, now=0.0)
    assert len(one._groups) == GROUPS_MAX


def test_who_shares_is_told() -> None:
    assert [quotas().group(author) for author in (PROVEN, NEW)] == [PROVEN, UNPROVEN]


@pytest.mark.parametrize("seed", range(20))
def test_no_mix_of_new_identities_gets_more_than_rate_and_burst(seed: int) -> None:
    rng, one = random.Random(seed), quotas()
    now, size, tokens = 0.0, 0, 0
    for _ in range(500):
        now += rng.expovariate(2.0)
        size_bytes, num_tokens = rng.randrange(1, 400), rng.randrange(1, 4000)
        author = identity(rng.randrange(30))
        if one.take(author, size_bytes=size_bytes, num_tokens=num_tokens, now=now) is None:
            size, tokens = size + size_bytes, tokens + num_tokens
    assert size <= LIMITS.bytes_per_s * (now + LIMITS.burst_s + SHARED_S_MAX)
    assert tokens <= LIMITS.tokens_per_s * (now + LIMITS.burst_s + SHARED_S_MAX)


@pytest.mark.parametrize(
    ("per_s", "size_bytes", "num_tokens", "cpu_s"),
    [
        (10, 3_000, 64 * 16, 0.005),  # `tiny` on a fast machine: ten batches of 8 rollouts of 8 a second
        (2, 20_000, 4 * 8 * 256, 0.02),  # twice a second what the paper's node sends every few seconds
    ],
    ids=["tiny", "paper"],
)
def test_an_honest_fast_node_never_meets_the_default_limits(
    per_s: int, size_bytes: int, num_tokens: int, cpu_s: float
) -> None:
    one = quotas(DEFAULTS)
    for number in range(per_s * 600):
        now = number / per_s
        assert one.take(PROVEN, size_bytes=size_bytes, num_tokens=num_tokens, now=now) is None
        one.charge_scoring(PROVEN, cpu_s, now)


def test_a_swarm_that_starts_together_is_let_in_while_all_are_new() -> None:
    one = quotas(DEFAULTS)  # 32 nodes, three batches a second each, until each had its eight batches
    for step in range(8):
        for number in range(32):
            now = step / 3
            assert one.take(identity(number), size_bytes=3000, num_tokens=1024, now=now) is None
            one.charge_scoring(identity(number), 0.005, now)


@pytest.mark.parametrize(
    ("text", "claim", "num"),
    [
        ("", None, 1),
        ("abcd", None, 1),
        ("abcde", None, 2),
        ("abcd", 4, 4),
        ("abcd", 2**20, 5),  # no text has more tokens than bytes, and an end
        ("a" * 400, 3, 100),
        ("ü" * 4, 0, 2),
    ],
)
def test_tokens_are_as_claimed_but_no_fewer_than_the_text_is_worth(
    text: str, claim: int | None, num: int
) -> None:
    completion = Completion(text=text, finished=True, num_tokens=claim)
    batch = RolloutBatch(rollouts=(Rollout(dataset=0, counter=0, completions=(completion, completion)),))
    assert tokens_of(batch) == 2 * num
