"""Areas, drops and crossings of curves whose answers are known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from swarmd.experiment.reporting.curves import (
    Array,
    Curve,
    crossing,
    drop_from_best,
    final,
    largest_drop,
    shared_areas,
    smoothed,
)

VALUES = some.lists(some.floats(0, 1), min_size=2, max_size=20)


def of(*values: float) -> Array:
    return np.array(values)


def line(x: Array, y: Array) -> Curve:
    return Curve(x, y, step=False)


def step(x: Array, y: Array) -> Curve:
    return Curve(x, y, step=True)


def test_a_steps_area_is_the_sum_of_its_values() -> None:
    assert step(of(1, 2, 3), of(0.5, 0.25, 1)).areas(0, of(1, 3)) == pytest.approx([0.5, 1.75])


def test_a_steps_value_holds_before_its_end() -> None:
    assert step(of(2, 10), of(1, 0.5)).areas(0, of(1, 6)) == pytest.approx([1, 4])


def test_a_lines_area_is_that_of_its_trapezoids() -> None:
    curve = line(of(0, 10, 20), of(0, 1, 1))
    assert curve.areas(0, of(5, 10, 20)) == pytest.approx([1.25, 5, 15])
    assert curve.areas(5, of(10)) == pytest.approx([3.75])


@given(VALUES, some.floats(0.01, 0.99))
def test_areas_of_two_parts_add_up(values: list[float], share: float) -> None:
    x_E = np.arange(len(values), dtype=float)
    for curve in (line(x_E, np.array(values)), step(x_E + 1, np.array(values))):
        middle = curve.first + share * (curve.last - curve.first)
        parts = curve.areas(curve.first, of(middle))[0] + curve.areas(middle, of(curve.last))[0]
        assert parts == pytest.approx(curve.areas(curve.first, of(curve.last))[0], abs=1e-9)


def test_two_curves_are_compared_where_both_are() -> None:
    # b reaches 10, a 20: up to 10 a is worth half of its last value on average
    areas = shared_areas(line(of(0, 20), of(0, 2)), line(of(0, 10), of(0, 1)), of(0.5, 1), mean=True)
    assert areas is not None
    assert areas[0] == pytest.approx([0.25, 0.5])
    assert areas[1] == pytest.approx([0.25, 0.5])


def test_a_mean_is_unharmed_by_where_curves_begin() -> None:
    areas = shared_areas(line(of(5, 20), of(1, 1)), line(of(0, 20), of(1, 1)), of(1.0), mean=True)
    assert areas is not None
    assert areas[0] == areas[1] == pytest.approx([1])


def test_curves_that_share_nothing_are_not_compared() -> None:
    assert shared_areas(line(of(0, 1), of(1, 1)), line(of(2, 3), of(1, 1)), of(1.0), mean=True) is None


@pytest.mark.parametrize(
    ("values", "drop"), [((0, 1, 2), 0), ((1, 3, 2, 4, 1.5), 2.5), ((3, 2, 1), 2), ((0.1 + 0.2, 0.3), 0)]
)
def test_the_largest_drop_is_from_the_best_so_far(values: tuple[float, ...], drop: float) -> None:
    assert largest_drop(of(*values)) == drop


def test_what_was_learned_again_is_not_forgotten() -> None:
    assert drop_from_best(of(0, 2, 1, 2)) == 0
    assert drop_from_best(of(0, 2, 1)) == 1


def test_smoothing_takes_the_mean_of_the_last_rounds() -> None:
    assert smoothed(of(*range(7))) == pytest.approx([2, 3, 4])


@given(VALUES)
def test_smoothing_stays_between_the_extremes(values: list[float]) -> None:
    means = smoothed(np.array(values))
    assert len(means) >= 1
    assert min(values) - 1e-9 <= means.min() <= means.max() <= max(values) + 1e-9


def test_final_is_the_last_tenth() -> None:
    assert final(of(*range(20))) == 18.5
    assert final(of(1, 3)) == 3


def test_a_crossing_lies_between_evaluations_by_proportion() -> None:
    assert crossing(line(of(0, 10, 20), of(0, 0.2, 1)), 0.6) == pytest.approx(15)


@pytest.mark.parametrize(("level", "at"), [(0.0, 0.0), (2.0, None)])
def test_a_level_may_be_there_at_once_or_never(level: float, at: float | None) -> None:
    assert crossing(line(of(0, 10), of(0, 1)), level) == at
