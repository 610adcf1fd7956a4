"""Capability: means of rewards that were given here, never above 1, and silent while there is little to go by."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmd.trust.capability import AUTHORS_MAX, ROLLOUTS_MIN, WINDOW, Capability

ANN = b"ann"
rewards = st.lists(st.lists(st.floats(0, 1), max_size=4), max_size=40)


def measured(own: float, theirs: float, *, num_own: int = 20, num_theirs: int = 20) -> float:
    capability = Capability()
    for _ in range(num_own):
        capability.observe_own([own, own])
    for _ in range(num_theirs):
        capability.observe(ANN, [theirs])
    return capability.ratio(ANN)


@pytest.mark.parametrize(
    ("own", "theirs", "wanted"), [(0.8, 0.2, 0.25), (0.2, 0.8, 1.0), (0.5, 0.0, 0.0), (0.0, 0.0, 1.0)]
)
def test_the_ratio_of_means_is_at_most_one(own: float, theirs: float, wanted: float) -> None:
    assert measured(own, theirs) == pytest.approx(wanted)


@pytest.mark.parametrize(("num_own", "num_theirs"), [(ROLLOUTS_MIN - 1, 99), (99, ROLLOUTS_MIN - 1), (99, 0)])
def test_too_little_data_says_nothing(num_own: int, num_theirs: int) -> None:
    assert measured(1.0, 0.0, num_own=num_own, num_theirs=num_theirs) == 1
    assert measured(1.0, 0.0, num_own=ROLLOUTS_MIN, num_theirs=ROLLOUTS_MIN) == 0


def test_a_mean_moves_with_a_policy_that_learns() -> None:
    capability = Capability()
    for _ in range(3 * WINDOW):
        capability.observe_own([1.0])
        capability.observe(ANN, [0.0])
    before = capability.ratio(ANN)
    for _ in range(2 * WINDOW):
        capability.observe(ANN, [1.0])
    assert before == 0
    assert capability.ratio(ANN) == pytest.approx(1 - (1 - 1 / WINDOW) ** (2 * WINDOW))


def test_uninformative_rollouts_count() -> None:
    capability = Capability()
    for _ in range(ROLLOUTS_MIN):
        capability.observe_own([1.0, 0.0])
        capability.observe(ANN, [0.0, 0.0])
        capability.observe(ANN, [])  # a rollout may be empty; then it says nothing
    assert capability.ratio(ANN) == 0


def test_ever_new_authors_push_out_the_one_heard_of_longest_ago() -> None:
    capability = Capability()
    for _ in range(ROLLOUTS_MIN):
        capability.observe_own([1.0])
        capability.observe(ANN, [0.0])
        capability.observe(b"bob", [0.0])
    for number in range(AUTHORS_MAX - 1):
        capability.observe(number.to_bytes(4), [1.0])
    assert (capability.ratio(ANN), capability.ratio(b"bob")) == (1, 0)


@given(own=rewards, theirs=rewards)
def test_whatever_comes_the_ratio_is_a_weight(own: list[list[float]], theirs: list[list[float]]) -> None:
    capability = Capability()
    for rewards_G in own:
        if rewards_G:
            capability.observe_own(rewards_G)
    for rewards_G in theirs:
        capability.observe(ANN, rewards_G)
    assert 0 <= capability.ratio(ANN) <= 1
