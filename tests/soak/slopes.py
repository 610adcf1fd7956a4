"""Whether a measure rises over time by more than its noise.

The warm-up is cut off, the rest is parted into blocks, and each block has its median, so that neither a spike nor the dependence of
neighbouring samples counts. The slope is Theil and Sen's (the median of all slopes between two blocks). Its interval takes
Kendall's count of rising pairs (Sen, 1968), which supposes no distribution.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations, pairwise
from statistics import NormalDist, median

# The first third is for tables and allocators to fill.
WARM_UP = 1 / 3
NUM_BLOCKS = 24
# A report judges dozens of measures: at 0.999 one in a thousand level ones would be called rising.
CONFIDENCE = 0.999
HOURS_A_MONTH = 30 * 24.0


class Verdict(StrEnum):
    """`SETTLES`: it rose after the warm-up, and the second half of what is left does not tell it from level."""

    LEVEL = "level"
    FALLS = "falls"
    SETTLES = "settles"
    RISES = "RISES"
    SHORT = "too short"


@dataclass(frozen=True)
class Slope:
    """Units an hour, with the interval in which it lies with `CONFIDENCE`."""

    an_hour: float
    low: float
    high: float

    @property
    def rises(self) -> bool:
        return self.low > 0


@dataclass(frozen=True)
class Judged:
    """A measure after its warm-up: its first and last block's median, its slope, and that of the later half."""

    verdict: Verdict
    first: float = 0.0
    last: float = 0.0
    slope: Slope = Slope(0.0, 0.0, 0.0)
    late: Slope = Slope(0.0, 0.0, 0.0)

    @property
    def in_a_month(self) -> float:
        """The level in 30 days if the later half went on: by its slope where that is told from noise, else no more than now."""
        return self.last + (self.late.an_hour * HOURS_A_MONTH if self.late.rises else 0.0)

    @property
    def in_a_month_at_most(self) -> float:
        """The same by the upper end of the later slope's interval: what a run of this length cannot exclude."""
        return self.last + max(0.0, self.late.high) * HOURS_A_MONTH


def judge(hours_N: Sequence[float], values_N: Sequence[float]) -> Judged:
    """Judge one measure by all its samples, in the order of time; fewer than two samples a block are too short."""
    begin = hours_N[0] + (hours_N[-1] - hours_N[0]) * WARM_UP if hours_N else 0.0
    kept = [(hour, value) for hour, value in zip(hours_N, values_N, strict=True) if hour >= begin]
    if len(kept) < 2 * NUM_BLOCKS:
        return Judged(Verdict.SHORT)
    blocks = _blocks(kept)
    slope, late = slope_of(blocks), slope_of(blocks[NUM_BLOCKS // 2 :])
    if slope.high < 0:
        verdict = Verdict.FALLS
    elif late.rises:
        verdict = Verdict.RISES
    else:
        verdict = Verdict.SETTLES if slope.rises else Verdict.LEVEL
    return Judged(verdict, blocks[0][1], blocks[-1][1], slope, late)


def slope_of(points_N: Sequence[tuple[float, float]]) -> Slope:
    """The slope of points at different times, with its interval."""
    slopes = sorted((y1 - y0) / (x1 - x0) for (x0, y0), (x1, y1) in combinations(points_N, 2))
    num = len(points_N)
    deviation = math.sqrt(num * (num - 1) * (2 * num + 5) / 18)
    kendall = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * deviation
    outside = max(0, math.floor((len(slopes) - kendall) / 2))
    return Slope(median(slopes), slopes[outside], slopes[-1 - outside])


def _blocks(kept: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    bounds = [len(kept) * number // NUM_BLOCKS for number in range(NUM_BLOCKS + 1)]
    parts = [kept[begin:end] for begin, end in pairwise(bounds)]
    return [(median(x for x, _ in part), median(y for _, y in part)) for part in parts]
