"""The effective number of authors."""

import pytest

from swarmd.experience.effective import effective_number


@pytest.mark.parametrize(
    ("held", "number"), [([], 0.0), ([0], 0.0), ([7], 1.0), ([3, 3, 3], 3.0), ([2, 1, 1], 16 / 6)]
)
def test_equal_authors_count_fully(held: list[int], number: float) -> None:
    assert effective_number(held) == pytest.approx(number)


def test_a_crowd_of_small_ones_beside_a_large_one_is_about_one() -> None:
    assert effective_number([10_000, *[1] * 100]) < 1.03
