"""Curves of a reward over rounds, tokens or seconds, and what is read off them: areas, drops, crossings. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Rounds over which a fresh reward is averaged before its drops are looked for, as a share of all rounds, and the least of them. The
# mean of one round's few dozen completions falls to zero by chance; at half, drops measure that, at double they hide real falls.
SMOOTH_SHARE = 0.05
SMOOTH_MIN = 5
# Share of the rounds, at the end, that counts as "final" for what is measured every round.
FINAL_SHARE = 0.1
# Means of equal rewards differ by this much at most; a ratio of two such differences would look like an effect.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Curve:
    """Values `y_E` at rising `x_E`. In a `step` each holds over the interval that ends at its x; else lines join the points."""

    x_E: Array
    y_E: Array
    step: bool

    @property
    def first(self) -> float:
        return 0.0 if self.step else float(self.x_E[0])

    @property
    def last(self) -> float:
        return float(self.x_E[-1])

    def areas(self, low: float, highs_H: Array) -> Array:
        """The areas under the curve from `low` to each of `highs_H`, which lie between its ends."""
        if self.step:
            knots_E = np.concatenate(([0.0], self.x_E))
            sums_E = np.concatenate(([0.0], np.cumsum(self.y_E * np.diff(knots_E))))
            return np.asarray(np.interp(highs_H, knots_E, sums_E) - np.interp(low, knots_E, sums_E))
        # A straight line's integral is no straight line: the ends become points of the curve before the trapezoids are summed.
        knots_E = np.unique(np.concatenate((self.x_E, [low], highs_H)))
        values_E = np.interp(knots_E, self.x_E, self.y_E)
        parts_E = np.diff(knots_E) * (values_E[1:] + values_E[:-1]) / 2
        sums_E = np.concatenate(([0.0], np.cumsum(parts_E)))
        return np.asarray(sums_E[np.searchsorted(knots_E, highs_H)] - sums_E[np.searchsorted(knots_E, low)])


def shared_areas(a: Curve, b: Curve, fractions_H: Array, *, mean: bool) -> tuple[Array, Array] | None:
    """Both areas from where both have begun to fractions of the largest x that both reach; None where they share no x.

    With `mean` they are divided by the length of x, so that nodes that got further do not count for more.
    """
    low, high = max(a.first, b.first), min(a.last, b.last)
    if not high > low:
        return None
    highs_H = low + fractions_H * (high - low)
    lengths_H = highs_H - low if mean else np.ones_like(highs_H)
    return a.areas(low, highs_H) / lengths_H, b.areas(low, highs_H) / lengths_H


def smoothed(values_R: Array) -> Array:
    """Means over the last few rounds up to each one."""
    window = max(SMOOTH_MIN, round(SMOOTH_SHARE * len(values_R)))
    sums_R = np.cumsum(values_R)
    if len(values_R) <= window:
        return sums_R[-1:] / max(1, len(values_R))
    return np.concatenate((sums_R[window - 1 : window], sums_R[window:] - sums_R[:-window])) / window


def final(values_R: Array) -> float:
    """The mean over the last rounds."""
    return float(np.mean(values_R[-max(1, round(FINAL_SHARE * len(values_R))) :]))


def largest_drop(values_E: Array) -> float:
    """How far the values fall below what they had reached before, at worst."""
    drop = float(np.max(np.maximum.accumulate(values_E) - values_E))
    return 0.0 if drop <= _ROUNDING else drop


def drop_from_best(values_E: Array) -> float:
    """How far the last value lies below the best one: what was forgotten and not learned again."""
    return float(np.max(values_E) - values_E[-1])


def crossing(curve: Curve, level: float) -> float | None:
    """The first x at which a curve of lines reaches `level`, between its points by proportion; None where it never does."""
    above_E = np.flatnonzero(curve.y_E >= level)
    if not len(above_E):
        return None
    i = int(above_E[0])
    if i == 0:
        return float(curve.x_E[0])
    x0, x1, y0, y1 = curve.x_E[i - 1], curve.x_E[i], curve.y_E[i - 1], curve.y_E[i]
    return float(x0 + (x1 - x0) * (level - y0) / (y1 - y0))
