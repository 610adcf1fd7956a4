import random

import pytest

from tests.soak.slopes import Verdict, judge, slope_of

HOURS = [number / 360 for number in range(540)]  # a sample each 10 s, for an hour and a half


def noisy(level: float, an_hour: float, noise: float, seed: int) -> list[float]:
    rng = random.Random(seed)
    return [level + an_hour * hour + rng.gauss(0, noise) for hour in HOURS]


def test_the_slope_of_a_line_is_its_own() -> None:
    found = slope_of([(float(x), 3.0 * x + 1) for x in range(12)])
    assert found.an_hour == found.low == found.high == 3.0
    assert found.rises


def test_one_wild_point_does_not_tilt_it() -> None:
    assert slope_of([(float(x), 1e6 if x == 11 else 5.0) for x in range(12)]).an_hour == 0


def test_level_noise_is_seldom_called_rising() -> None:
    verdicts = [judge(HOURS, noisy(100, 0, 5, seed)).verdict for seed in range(200)]
    assert verdicts.count(Verdict.RISES) <= 3


@pytest.mark.parametrize("seed", range(5))
def test_a_leak_is_found_in_noise(seed: int) -> None:
    found = judge(HOURS, noisy(100, 10, 1, seed))
    assert found.verdict is Verdict.RISES
    assert found.late.low < 10 < found.late.high
    assert found.in_a_month == pytest.approx(100 + 10 * 720, rel=0.3)
    assert found.in_a_month <= found.in_a_month_at_most


@pytest.mark.parametrize("seed", range(5))
def test_what_fills_up_and_stays_settles(seed: int) -> None:
    rng = random.Random(seed)
    values = [min(100.0, 60 + 40 * hour) + rng.gauss(0, 0.5) for hour in HOURS]
    found = judge(HOURS, values)
    assert found.verdict is Verdict.SETTLES
    assert found.in_a_month == pytest.approx(100, abs=2)


def test_what_falls_is_said_to() -> None:
    assert judge(HOURS, noisy(100, -20, 1, 0)).verdict is Verdict.FALLS


def test_few_samples_are_not_judged() -> None:
    assert judge(HOURS[:60], noisy(1, 1, 0, 0)[:60]).verdict is Verdict.SHORT
    assert judge([], []).verdict is Verdict.SHORT


def test_steps_of_a_counter_are_level_and_a_constant_too() -> None:
    assert judge(HOURS, [7.0] * len(HOURS)).verdict is Verdict.LEVEL
