"""Shares: how many rollouts unproven authors may have, and how many authors rollouts come from in effect."""

import pytest

from swarmd.experience.shares import effective_number, unproven_max


@pytest.mark.parametrize(
    ("share", "num_local", "num_external", "expected"),
    [
        (0.1, 4, 4, 1),  # 0.8, and one always goes in
        (0.1, 8, 12, 2),
        (0.1, 20, 19, 3),
        (0.29, 50, 50, 29),  # 0.29 x 100 is below 29 in floating point
        (1.0, 4, 4, 4),
        (0.9, 1, 6, 6),
        (0.0, 4, 4, 0),
        (0.1, 4, 0, 0),
    ],
)
def test_the_share_is_of_the_whole_training_set(
    share: float, num_local: int, num_external: int, expected: int
) -> None:
    assert unproven_max(share, num_local=num_local, num_external=num_external) == expected


@pytest.mark.parametrize(
    ("held", "number"), [([], 0.0), ([0], 0.0), ([7], 1.0), ([3, 3, 3], 3.0), ([2, 1, 1], 16 / 6)]
)
def test_equal_authors_count_fully(held: list[int], number: float) -> None:
    assert effective_number(held) == pytest.approx(number)


def test_a_crowd_of_small_ones_beside_a_large_one_is_about_one() -> None:
    assert effective_number([10_000, *[1] * 100]) < 1.03
