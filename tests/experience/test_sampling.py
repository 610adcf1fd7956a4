"""Draws: without replacement, repeatable, uniform; the statistics run through the real buffer."""

import random
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from swarmd.experience.sampling import Candidate, Strategy, draw
from tests.experience.batches import NOW_MS, UNINFORMATIVE, add, author, open_buffer

POOL = [Candidate(row, b"a" if row < 9 else b"b") for row in range(10)]
STRATEGIES = get_args(Strategy)

# Upper 0.1 % points of the chi-square distribution (NIST/SEMATECH e-Handbook, table 1.3.6.7.4). The seeds are fixed, so a test
# passes for ever or fails for ever.
CHI_SQUARE_MAX = {1: 10.828, 9: 27.877, 39: 72.055}


def chi_square(observed: Counter[int], expected: float, num_cells: int) -> float:
    return sum((observed[cell] - expected) ** 2 for cell in range(num_cells)) / expected


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("num", "expected"), [(0, 0), (3, 3), (10, 10), (99, 10)])
def test_at_most_what_there_is_is_drawn_and_nothing_twice(
    strategy: Strategy, num: int, expected: int
) -> None:
    rows = draw(POOL, num, random.Random(1), strategy)
    assert len(rows) == len(set(rows)) == expected


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_empty_pool_gives_nothing(strategy: Strategy) -> None:
    assert draw([], 4, random.Random(1), strategy) == []


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_same_stream_draws_the_same(strategy: Strategy) -> None:
    assert draw(POOL, 5, random.Random(7), strategy) == draw(POOL, 5, random.Random(7), strategy)


def test_by_author_gives_each_author_the_same_chance() -> None:
    rng = random.Random(3)
    drawn = Counter(int(draw(POOL, 1, rng, "by-author")[0] == 9) for _ in range(20_000))
    assert chi_square(drawn, 10_000, 2) < CHI_SQUARE_MAX[1]


def best(total: float, num_completions: int = 4, *, row: int = 0, arrived: int = 0) -> Candidate:
    return Candidate(row, b"a", arrived, total, num_completions)


def test_top_total_takes_the_highest_sum_and_not_the_highest_mean() -> None:
    pool = [best(3.0, row=1), best(4.0, 64, row=2), best(3.5, row=3), best(0.5, row=4)]
    assert draw(pool, 3, random.Random(1), "top-total") == [2, 3, 1]


def test_first_arrived_takes_messages_in_the_order_of_receipt() -> None:
    pool = [best(1.0, row=1, arrived=9), best(1.0, row=2, arrived=2), best(3.0, row=3, arrived=5)]
    assert draw(pool, 2, random.Random(1), "first-arrived") == [2, 3]


def test_rare_first_takes_the_lowest_mean_above_zero() -> None:
    pool = [best(1.0, 4, row=1), best(1.0, 8, row=2), best(0.0, row=3), best(-1.0, row=4), best(3.9, row=5)]
    assert draw(pool, 3, random.Random(1), "rare-first") == [2, 1, 5]
    assert set(draw(pool, 9, random.Random(1), "rare-first")[3:]) == {3, 4}


@pytest.mark.parametrize("strategy", ["top-total", "first-arrived", "rare-first"])
def test_among_equals_the_random_stream_decides_and_favours_none(strategy: Strategy) -> None:
    """20,000 draws of one in ten equal ones, after one that is better in every way."""
    pool = [best(1.0, 4, row=row, arrived=7) for row in range(10)]
    better = {
        "top-total": best(2.0, row=99),
        "first-arrived": best(1.0, row=99),
        "rare-first": best(0.5, row=99),
    }
    rng, drawn = random.Random(11), Counter[int]()
    for _ in range(20_000):
        first, second = draw([*pool, better[strategy]], 2, rng, strategy)
        assert first == 99
        drawn[second] += 1
    assert chi_square(drawn, 2000, 10) < CHI_SQUARE_MAX[9]


def test_the_buffer_tells_its_draws_what_they_choose_by(tmp_path: Path) -> None:
    # given, in the order of receipt: the oldest made, the best, the rarest
    for strategy, expected in (("first-arrived", "ann"), ("top-total", "bob"), ("rare-first", "cyd")):
        (tmp_path / strategy).mkdir()
        buffer = open_buffer(tmp_path / strategy, strategy=strategy)
        add(buffer, "ann", [1], rewards_G=(1.0, 1.0, 0.0, 0.0))
        add(buffer, "bob", [1], rewards_G=(1.0, 1.0, 1.0, 0.0), age_s=99)
        add(buffer, "cyd", [1], rewards_G=(1.0, 0.0, 0.0, 0.0), age_s=50)
        (drawn,) = buffer.sample(1, random.Random(1), now_ms=NOW_MS).rollouts
        assert drawn.author == author(expected), strategy


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
