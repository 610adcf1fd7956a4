"""Effects that were put in come out, and an interval covers the truth as often as it says."""

import math

import numpy as np
import pytest

from swarmd.experiment.reporting import statistics
from swarmd.experiment.reporting.curves import Array
from swarmd.experiment.reporting.statistics import (
    Interval,
    centre,
    difference,
    fieller,
    num_distinct_resamples,
    ratio,
    t_quantile,
)

TRIALS = 800


def paired(rng: np.random.Generator, num_seeds: int, effect: float = 1.0) -> tuple[Array, Array]:
    """Two arms that share each seed's luck, which is far larger than their own."""
    luck_S = rng.normal(0, 0.5, num_seeds)
    a_S, b_S = (np.exp(luck_S + rng.normal(0, 0.2, num_seeds)) for _ in "ab")
    return effect * a_S, b_S


def coverage(num_seeds: int, effect: float, which: str) -> float:
    rng = np.random.default_rng(num_seeds)
    num_covered = 0
    for _ in range(TRIALS):
        interval: Interval = getattr(ratio(*paired(rng, num_seeds, effect)), which)
        num_covered += interval[0] <= effect <= interval[1]
    return num_covered / TRIALS


# tables of Student's t, 95 % two-sided
@pytest.mark.parametrize(
    ("freedom", "value"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (7, 2.365), (30, 2.042)]
)
def test_students_t_is_that_of_the_tables(freedom: int, value: float) -> None:
    assert t_quantile(freedom) == pytest.approx(value, abs=5e-4)


@pytest.mark.parametrize("num_seeds", [3, 5, 8])
@pytest.mark.parametrize("effect", [1.0, 1.94])
def test_the_interval_covers_the_true_ratio_as_often_as_it_says(num_seeds: int, effect: float) -> None:
    # 800 trials of 95 %: four standard errors are 3 points; the wider of two intervals may cover a little more often
    assert 0.92 <= coverage(num_seeds, effect, "interval") <= 0.985


def test_the_bootstrap_alone_covers_too_rarely_with_few_seeds() -> None:
    assert coverage(3, 1.0, "bootstrap") < 0.85


def test_a_known_effect_is_recovered() -> None:
    estimate = ratio(*paired(np.random.default_rng(1), 200, 1.6))
    assert estimate.interval is not None
    assert estimate.interval[0] < 1.6 < estimate.interval[1]
    assert estimate.interval[1] / estimate.interval[0] < 1.25


def test_pairing_removes_what_the_seeds_share() -> None:
    luck_S = np.array([1.0, 5.0, 25.0])
    assert ratio(2 * luck_S, luck_S).interval == pytest.approx((2.0, 2.0))


def test_the_effect_is_the_ratio_of_sums() -> None:
    assert ratio(np.array([1.0, 9.0]), np.array([1.0, 4.0])).effect == 2.0


def test_the_wider_interval_is_used_and_holds_the_effect() -> None:
    estimate = ratio(np.array([1.0, 30.0, 1.1]), np.array([1.0, 10.0, 1.0]))
    assert estimate.bootstrap is not None
    assert estimate.t is not None
    assert estimate.interval is not None
    low, high = max((estimate.bootstrap, estimate.t), key=lambda i: i[1] / i[0])
    assert estimate.interval[0] <= min(low, estimate.effect)
    assert estimate.interval[1] >= max(high, estimate.effect)


def test_one_seed_has_no_interval() -> None:
    estimate = ratio(np.array([3.0]), np.array([2.0]))
    assert (estimate.effect, estimate.interval, estimate.num_seeds) == (1.5, None, 1)


def test_nothing_over_nothing_is_no_effect() -> None:
    estimate = ratio(np.zeros(3), np.zeros(3))
    assert math.isnan(estimate.effect)
    assert estimate.interval is None


def test_something_over_nothing_is_infinite_and_decides_nothing() -> None:
    estimate = ratio(np.array([1.0, 2.0, 3.0]), np.zeros(3))
    assert (estimate.effect, estimate.interval) == (math.inf, (0.0, math.inf))


def test_a_zero_among_the_values_leaves_an_interval_without_logarithms() -> None:
    estimate = ratio(np.array([0.0, 0.1, 0.1, 0.0]), np.array([1.0, 1.1, 0.9, 1.0]))
    assert estimate.interval is not None
    assert estimate.interval[0] == 0.0
    assert 0.05 < estimate.interval[1] < 0.5


def test_fiellers_interval_is_open_where_the_divisor_may_be_zero() -> None:
    assert fieller(np.array([1.0, 2.0, 3.0]), np.array([0.0, 0.1, -0.1])) == (0.0, math.inf)


def test_fiellers_interval_is_near_that_of_logarithms_where_both_exist() -> None:
    a_S, b_S = paired(np.random.default_rng(4), 40, 1.5)
    low, high = fieller(a_S, b_S)
    estimate = ratio(a_S, b_S)
    assert estimate.t is not None
    assert (low, high) == pytest.approx(estimate.t, rel=0.08)


def test_a_difference_is_the_mean_of_the_seeds_own() -> None:
    estimate = difference(np.array([0.3, 0.5, 0.4]), np.array([0.1, 0.2, 0.3]))
    assert estimate.effect == pytest.approx(0.2)
    assert estimate.t == pytest.approx((0.2 - 4.3027 * 0.1 / 3**0.5, 0.2 + 4.3027 * 0.1 / 3**0.5), abs=1e-4)


def test_the_same_input_gives_the_same_interval() -> None:
    values_S = np.array([0.1, 0.4, 0.2, 0.9])
    first = centre(values_S)
    statistics._resamples.cache_clear()
    assert centre(values_S) == first


def test_resamples_of_three_seeds_are_counted() -> None:
    # 3 of one kind (3), 2 and 1 (6), all different (1)
    assert num_distinct_resamples(3) == 10
