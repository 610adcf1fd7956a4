"""Own experience: what is kept for the update, and what is measured of everything generated."""

import math

import pytest

from swarmd.experience.own import Fresh, OwnExperience, keep
from swarmd.experience.rollouts import ScoredCompletion, ScoredRollout

MIXED, NONE_RIGHT, ALL_RIGHT = (1.0, 0.0), (0.0, 0.0), (1.0, 1.0)


def rollout(counter: int, rewards_G: tuple[float, ...], dataset: int = 0) -> ScoredRollout:
    completions = tuple(ScoredCompletion("4", True, reward) for reward in rewards_G)
    return ScoredRollout(b"a" * 32, dataset, counter, "2 + 2?", completions, 0, 0, False)


def rollouts(*rewards_RG: tuple[float, ...]) -> list[ScoredRollout]:
    return [rollout(counter, rewards_G) for counter, rewards_G in enumerate(rewards_RG)]


def own(*rewards_RG: tuple[float, ...], num_kept: int) -> OwnExperience:
    return OwnExperience.of(rollouts(*rewards_RG), num_kept=num_kept, num_tokens=8, seconds=1.5)


def test_what_is_not_too_many_stays_as_it_was_generated() -> None:
    generated = rollouts(NONE_RIGHT, MIXED, ALL_RIGHT, MIXED)
    assert keep(generated, 4) == generated == keep(generated, 9)


@pytest.mark.parametrize(
    ("num", "counters"), [(0, []), (1, [1]), (2, [1, 3]), (3, [1, 3, 0]), (4, [1, 3, 0, 2])]
)
def test_of_too_many_informative_ones_are_kept_first_in_their_order(num: int, counters: list[int]) -> None:
    generated = rollouts(NONE_RIGHT, MIXED, ALL_RIGHT, MIXED, NONE_RIGHT)
    assert [kept.counter for kept in keep(generated, num)] == counters


def test_the_fresh_reward_is_of_everything_also_of_what_is_not_kept() -> None:
    experience = own(NONE_RIGHT, MIXED, NONE_RIGHT, MIXED, num_kept=2)
    assert [kept.counter for kept in experience.rollouts] == [1, 3]
    assert (experience.fresh.reward, experience.fresh.num_questions) == (0.25, 4)
    assert (experience.num_informative, experience.fresh.num_informative) == (2, 2)
    assert (experience.fresh.num_tokens, experience.fresh.seconds) == (8, 1.5)


def test_each_completion_counts_alike_in_the_fresh_reward() -> None:
    assert own((1.0, 1.0, 1.0, 0.0), (0.0,), num_kept=2).fresh.reward == 0.6


def test_of_nothing_there_is_no_reward() -> None:
    nothing = Fresh((), (), 0, 0.0)
    assert math.isnan(nothing.reward)
    assert (nothing.num_questions, nothing.num_informative) == (0, 0)


def test_rewards_without_their_dataset_are_refused() -> None:
    with pytest.raises(ValueError, match="2 rollouts are of 1 datasets"):
        Fresh((MIXED, MIXED), (0,), 0, 0.0)
