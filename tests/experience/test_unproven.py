"""How many rollouts unproven authors may have in a training set."""

import pytest

from swarmd.experience.unproven import unproven_max


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
