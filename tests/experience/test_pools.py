"""The local pool: bounded in batches, drops what is stale, draws without replacement."""

import random

import pytest

from swarmd.experience.pools import LocalPool
from swarmd.experience.rollouts import ScoredCompletion, ScoredRollout


def rollout(counter: int, *, version: int = 0, rewards_G: tuple[float, ...] = (1.0, 0.0)) -> ScoredRollout:
    completions = tuple(ScoredCompletion("4", True, reward) for reward in rewards_G)
    return ScoredRollout(b"a" * 32, 0, counter, "2 + 2?", completions, 0, version, external=False)


def counters(rollouts: list[ScoredRollout]) -> set[int]:
    return {rollout.counter for rollout in rollouts}


def test_what_is_taken_is_gone() -> None:
    pool = LocalPool(batches_max=4)
    pool.put([rollout(counter) for counter in range(6)])
    first = pool.take(4, random.Random(1), policy_version=0, staleness_max=0)
    second = pool.take(4, random.Random(1), policy_version=0, staleness_max=0)
    assert counters(first.rollouts) | counters(second.rollouts) == set(range(6))
    assert (first.shortfall, second.shortfall, len(pool)) == (0, 2, 0)


def test_the_oldest_batch_goes_when_the_pool_is_full() -> None:
    pool = LocalPool(batches_max=2)
    assert [pool.put([rollout(n), rollout(n + 1)]) for n in (0, 2, 4)] == [0, 0, 2]
    assert counters(pool.take(9, random.Random(1), policy_version=0, staleness_max=0).rollouts) == {
        2,
        3,
        4,
        5,
    }


def test_stale_rollouts_are_dropped_and_counted() -> None:
    pool = LocalPool(batches_max=4)
    pool.put([rollout(0, version=3), rollout(1, version=4), rollout(2, version=5)])
    taken = pool.take(1, random.Random(1), policy_version=5, staleness_max=0)
    assert (counters(taken.rollouts), taken.num_stale, len(pool)) == ({2}, 2, 0)


def test_dynamic_sampling_leaves_the_uninformative_behind() -> None:
    pool = LocalPool(batches_max=4)
    pool.put([rollout(0, rewards_G=(0.0, 0.0)), rollout(1)])
    taken = pool.take(2, random.Random(1), policy_version=0, staleness_max=0, informative_only=True)
    assert (counters(taken.rollouts), taken.shortfall, len(pool)) == ({1}, 1, 1)


def test_an_empty_pool_reports_the_whole_shortfall() -> None:
    taken = LocalPool(batches_max=1).take(4, random.Random(1), policy_version=0, staleness_max=0)
    assert (taken.rollouts, taken.shortfall) == ([], 4)


def test_an_empty_batch_pushes_nothing_out() -> None:
    pool = LocalPool(batches_max=1)
    pool.put([rollout(0)])
    assert pool.put([]) == 0
    assert len(pool) == 1


def test_a_pool_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        LocalPool(batches_max=0)
