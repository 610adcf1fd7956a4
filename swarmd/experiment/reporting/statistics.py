"""Paired comparisons over few seeds: effect sizes, two kinds of 95 % interval, and the wider of them. Pure; repeats.

With n seeds a bootstrap has only (2n-1 choose n) distinct resamples, and its percentile interval is too narrow: that of three seeds
covers the truth in about three cases of four. The t-interval is right if the seeds' (log) effects are normal. The wider one counts.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from swarmd.experiment.reporting.curves import Array

CONFIDENCE = 0.95
# Percentiles of 10,000 resamples repeat to about 1 % of the interval's width; a tenth of them to 3 %.
RESAMPLES = 10_000
RESAMPLE_SEED = 20250908
Interval = tuple[float, float]


@dataclass(frozen=True)
class Estimate:
    """An effect with its intervals; None where seeds are too few or the values allow none. `interval` is the one to judge by."""

    effect: float
    bootstrap: Interval | None
    t: Interval | None
    interval: Interval | None
    num_seeds: int


def ratio(a_S: Array, b_S: Array) -> Estimate:
    """The sum over seeds of `a_S` over that of `b_S`; neither is negative. Zero over zero is not a number."""
    effect = _divide(float(np.sum(a_S)), float(np.sum(b_S)))
    if len(a_S) < 2 or math.isnan(effect):
        return Estimate(effect, None, None, None, len(a_S))
    chosen_BS = _resamples(len(a_S))
    sums_a_B, sums_b_B = a_S[chosen_BS].sum(1), b_S[chosen_BS].sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios_B = np.where(sums_b_B > 0, sums_a_B / sums_b_B, np.where(sums_a_B > 0, np.inf, 1.0))
    bootstrap = _percentiles(ratios_B)
    if np.all(a_S > 0) and np.all(b_S > 0):
        low, high = _t_interval(np.log(a_S) - np.log(b_S))
        t = (_exp(low), _exp(high))
    else:  # no logarithm of zero: the interval of a ratio of means does without
        t = fieller(a_S, b_S)
    wider = max((bootstrap, t), key=lambda i: (math.inf if math.isinf(i[1]) else _divide(i[1], i[0]), -i[0]))
    return Estimate(effect, bootstrap, t, (min(wider[0], effect), max(wider[1], effect)), len(a_S))


def difference(a_S: Array, b_S: Array) -> Estimate:
    return centre(a_S - b_S)


def centre(values_S: Array) -> Estimate:
    effect = float(np.mean(values_S))
    if len(values_S) < 2:
        return Estimate(effect, None, None, None, len(values_S))
    bootstrap = _percentiles(values_S[_resamples(len(values_S))].mean(1))
    t = _t_interval(values_S)
    wider = max((bootstrap, t), key=lambda i: i[1] - i[0])
    return Estimate(effect, bootstrap, t, (min(wider[0], effect), max(wider[1], effect)), len(values_S))


def fieller(a_S: Array, b_S: Array) -> Interval:
    """The interval of a ratio of two means of paired values (Fieller 1954); from zero to infinity where b may be zero."""
    n = len(a_S)
    covariances = np.cov(a_S, b_S) / n * t_quantile(n - 1) ** 2
    mean_a, mean_b = float(np.mean(a_S)), float(np.mean(b_S))
    square = mean_b**2 - float(covariances[1, 1])
    if square <= 0:
        return 0.0, math.inf
    middle = mean_a * mean_b - float(covariances[0, 1])
    rest = max(0.0, middle**2 - square * (mean_a**2 - float(covariances[0, 0])))
    return max(0.0, (middle - math.sqrt(rest)) / square), (middle + math.sqrt(rest)) / square


@functools.cache
def t_quantile(freedom: int) -> float:
    """Student's t that a value exceeds in size with probability 1 - `CONFIDENCE`, to ten digits."""
    low, high = 0.0, math.pi / 2  # of the angle whose tangent is t / sqrt(freedom)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < CONFIDENCE else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _within(angle: float, freedom: int) -> float:
    """The probability that |t| is at most sqrt(freedom) tan(angle): the closed forms 26.7.3 and 26.7.4 of Abramowitz and Stegun."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for k in range(1 + odd, freedom, 2):
        total += term
        term *= cosine**2 * k / (k + 1)
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def num_distinct_resamples(num_seeds: int) -> int:
    return math.comb(2 * num_seeds - 1, num_seeds)


@functools.cache
def _resamples(num_seeds: int) -> NDArray[np.int64]:
    """The seeds of every resample: the same for every comparison with as many seeds."""
    return np.random.default_rng(RESAMPLE_SEED).integers(num_seeds, size=(RESAMPLES, num_seeds))


def _percentiles(values_B: Array) -> Interval:
    # the nearest value, not one between: beside an infinite one there is nothing between
    low, high = np.quantile(values_B, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], method="nearest")
    return float(low), float(high)


def _t_interval(values_S: Array) -> Interval:
    half = t_quantile(len(values_S) - 1) * float(np.std(values_S, ddof=1)) / math.sqrt(len(values_S))
    middle = float(np.mean(values_S))
    return middle - half, middle + half


def _divide(a: float, b: float) -> float:
    if b == 0:
        return math.inf if a > 0 else math.nan
    return a / b


def _exp(value: float) -> float:
    return math.exp(
        min(value, 700.0)
    )  # two unlike seeds can put the end of a t-interval beyond what a float holds
