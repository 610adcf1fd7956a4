"""What counts as told, of rounds that go back or are left out."""

import pytest

from tests.chaos.target import Said, untold


def rounds(*numbers: int) -> list[Said]:
    return [Said(number) for number in numbers]


@pytest.mark.parametrize(
    "said",
    [
        rounds(1, 2, 3),
        [*rounds(1, 2), Said(2, is_start=True), Said(3)],
        pytest.param(
            [*rounds(1, 2), Said(3, is_start=True), Said(4)], id="a kill between checkpoint and line"
        ),
        pytest.param([*rounds(1, 2, 3), Said(1, num_lost=2), Said(2)], id="lost, and told"),
        pytest.param([*rounds(1), Said(2, False), Said(1, is_start=True), Said(2)], id="said to be unsaved"),
    ],
)
def test_what_is_said_is_no_violation(said: list[Said]) -> None:
    assert untold(said) == []


@pytest.mark.parametrize(
    "said",
    [
        rounds(1, 2, 4),
        rounds(1, 2, 2),
        [*rounds(1, 2), Said(4, is_start=True), Said(5)],
        [*rounds(1, 2, 3), Said(1, is_start=True), Said(2)],
        [*rounds(1, 2, 3), Said(2, num_lost=1), Said(2)],
        [*rounds(1, 2), Said(3, False), Said(1, is_start=True), Said(2)],
    ],
)
def test_what_nobody_said_is_a_violation(said: list[Said]) -> None:
    assert len(untold(said)) == 1
