"""Advantages: zero sum, the sample deviation, and every input that could divide by zero."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmd.experience.advantages import advantages, is_informative, level

rewards = st.lists(st.floats(min_value=0, max_value=1, allow_subnormal=False), min_size=1, max_size=16)


def test_one_success_in_eight_has_the_value_computed_by_hand() -> None:
    # Sample deviation of one 1 in eight: sqrt(1/8) = 0.35355; (1 - 1/8) / (0.35355 + 1e-4) = 2.47417.
    values_G = advantages([1.0] + [0.0] * 7)
    assert values_G[0] == pytest.approx(2.474174, abs=1e-6)
    assert values_G[1] == pytest.approx(-0.353453, abs=1e-6)


def test_without_scaling_only_the_mean_is_taken_off() -> None:
    assert advantages([1.0, 0.0, 0.0, 1.0], scale="none") == [0.5, -0.5, -0.5, 0.5]


@pytest.mark.parametrize("rewards_G", [[0.0] * 8, [1.0] * 8, [0.1] * 3, [0.7]])
def test_equal_rewards_give_exact_zeros(rewards_G: list[float]) -> None:
    assert advantages(rewards_G) == [0.0] * len(rewards_G)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_not_finite_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        advantages([0.0, bad])


def test_an_empty_rollout_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        advantages([])


@given(rewards)
def test_advantages_sum_to_zero_and_keep_the_order_of_rewards(rewards_G: list[float]) -> None:
    values_G = advantages(rewards_G)
    assert math.fsum(values_G) == pytest.approx(0, abs=1e-9)
    assert all(
        (a <= b)
        for (r, a) in zip(rewards_G, values_G, strict=True)
        for (s, b) in zip(rewards_G, values_G, strict=True)
        if r < s
    )


@given(rewards)
def test_informative_is_exactly_not_all_equal(rewards_G: list[float]) -> None:
    assert is_informative(rewards_G) == (len(set(rewards_G)) > 1)


def test_nothing_is_not_informative() -> None:
    assert not is_informative([])


CRUMBS = [0.05] + [0.01] * 7


def test_a_crumb_would_weigh_as_much_as_the_only_right_answer() -> None:
    assert advantages(CRUMBS)[0] == pytest.approx(advantages([1.0] + [0.0] * 7)[0], rel=0.01)


def test_crumbs_are_levelled_and_their_mean_stays() -> None:
    levelled = level(CRUMBS, 0.05)
    assert not is_informative(levelled)
    assert advantages(levelled) == [0.0] * 8
    assert math.fsum(levelled) == pytest.approx(math.fsum(CRUMBS))


@pytest.mark.parametrize("rewards_G", [[0.05, 0.0], [0.15, 0.1], [1.0, 0.0], [0.3, 0.3], [0.5]])
def test_what_is_as_far_apart_as_that_stays_as_it_is(rewards_G: list[float]) -> None:
    assert level(rewards_G, 0.05) == rewards_G


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=16), st.floats(min_value=0, max_value=1))
def test_exact_rewards_are_never_touched(rewards_G: list[float], spread_min: float) -> None:
    assert level(rewards_G, spread_min) == rewards_G


@given(rewards)
def test_zero_is_off(rewards_G: list[float]) -> None:
    assert level(rewards_G, 0.0) == rewards_G
