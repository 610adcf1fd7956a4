"""Draws: without replacement, repeatable, uniform; the statistics run through the real buffer."""

import random
from collections import Counter
from pathlib import Path

import pytest

from swarmd.experience.sampling import Candidate, draw
from tests.experience.batches import NOW_MS, UNINFORMATIVE, add, author, open_buffer

POOL = [Candidate(row, b"a" if row < 9 else b"b") for row in range(10)]

# Upper 0.1 % points of the chi-square distribution (NIST/SEMATECH e-Handbook, table 1.3.6.7.4). The seeds are fixed, so a test
# passes for ever or fails for ever.
CHI_SQUARE_MAX = {9: 27.877, 39: 72.055}


def chi_square(observed: Counter[int], expected: float, num_cells: int) -> float:
    return sum((observed[cell] - expected) ** 2 for cell in range(num_cells)) / expected


@pytest.mark.parametrize(("num", "expected"), [(0, 0), (3, 3), (10, 10), (99, 10)])
def test_at_most_what_there_is_is_drawn_and_nothing_twice(num: int, expected: int) -> None:
    rows = draw(POOL, num, random.Random(1))
    assert len(rows) == len(set(rows)) == expected


def test_an_empty_pool_gives_nothing() -> None:
    assert draw([], 4, random.Random(1)) == []


def test_the_same_stream_draws_the_same() -> None:
    assert draw(POOL, 5, random.Random(7)) == draw(POOL, 5, random.Random(7))


def test_the_buffer_draws_every_informative_rollout_equally_often(tmp_path: Path) -> None:
    """100,000 draws of 40 rollouts that differ in author, age, and time of arrival; uninformative ones lie between them."""
    buffer, rng = open_buffer(tmp_path, uses_max=10**9), random.Random(20250911)
    for counter in range(40):
        add(buffer, f"author {counter % 3}", [counter], age_s=(counter * 7) % 50)
        add(buffer, "noise", [counter], rewards_G=UNINFORMATIVE)
    drawn: Counter[int] = Counter()
    for _ in range(12_500):
        sample = buffer.sample(8, rng, now_ms=NOW_MS)
        drawn.update(rollout.counter for rollout in sample.rollouts)
        assert author("noise") not in {rollout.author for rollout in sample.rollouts}
    assert drawn.total() == 100_000
    # Without replacement the cells vary less than the distribution assumes, by (40 - 8) / (40 - 1): the bound is the safer for it,
    # and the statistic is scaled back so that it stays sharp.
    assert chi_square(drawn, 2500, 40) * 39 / 32 < CHI_SQUARE_MAX[39]


def test_a_draw_that_favours_the_newest_would_be_noticed() -> None:
    rng, drawn = random.Random(1), Counter[int]()
    for _ in range(12_500):
        drawn.update([*rng.sample(range(40), 7), 39 - rng.randrange(3)])
    assert chi_square(drawn, 2500, 40) * 39 / 32 > CHI_SQUARE_MAX[39]
