"""An attacked swarm proves something only when it was attacked."""

import pytest

from tests.attack.trial import began_in_time, harm_was_offered


@pytest.mark.parametrize(("rounds_now", "passed"), [([3, 100], True), ([3, 101], False), ([0, 0], False)])
def test_the_attack_has_to_be_on_before_the_rounds_that_are_compared(
    rounds_now: list[int], passed: bool
) -> None:
    assert began_in_time(rounds_now, 200).passed is passed


@pytest.mark.parametrize(
    ("counted", "num_scored", "passed"),
    [({}, 0, False), ({"rollouts": 8}, 0, False), ({"rollouts": 0}, 5, False), ({"rollouts": 8}, 5, True)],
)
def test_harm_has_to_be_offered_and_scored(counted: dict[str, int], num_scored: int, passed: bool) -> None:
    check = harm_was_offered(counted, num_scored, 0)
    assert check.passed is passed
    assert "0 used" in check.detail
