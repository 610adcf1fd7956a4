"""The local pool: whole batches in order, and room for another only within the staleness bound."""

import pytest

from swarmd.experience.own import OwnExperience
from swarmd.experience.pools import LocalPool
from swarmd.experience.rollouts import ScoredCompletion, ScoredRollout


def batch(counter: int) -> OwnExperience:
    completions = (ScoredCompletion("4", True, 1.0),)
    rollout = ScoredRollout(b"a" * 32, 0, counter, "2 + 2?", completions, 0, 0, False)
    return OwnExperience.of([rollout], num_kept=1, num_tokens=1, seconds=0.0)


def test_batches_come_out_whole_and_in_order() -> None:
    pool = LocalPool(staleness_max=1)
    pool.put(batch(1))
    pool.put(batch(2))
    assert [pool.take(), pool.take()] == [batch(1), batch(2)]
    assert len(pool) == 0


def test_without_staleness_a_batch_is_begun_only_when_nothing_lies_ahead() -> None:
    pool = LocalPool(staleness_max=0)
    assert pool.has_room
    pool.put(batch(1))
    assert not pool.has_room
    pool.take()
    assert not pool.has_room
    pool.finish()
    assert pool.has_room


def test_with_a_staleness_of_one_the_next_batch_is_made_during_the_update() -> None:
    pool = LocalPool(staleness_max=1)
    pool.put(batch(1))
    assert pool.has_room
    pool.take()
    assert pool.has_room
    pool.put(batch(2))
    assert not pool.has_room


def test_an_empty_pool_has_nothing_to_take() -> None:
    with pytest.raises(IndexError):
        LocalPool(staleness_max=0).take()


def test_a_take_of_nothing_is_no_update_under_way() -> None:
    pool = LocalPool(staleness_max=0)
    with pytest.raises(IndexError):
        pool.take()
    assert pool.has_room


def test_a_negative_bound_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        LocalPool(staleness_max=-1)
