"""The bucket: never below zero by `take`, never above its burst, and over any time no more than its rate allows."""

import random

import pytest

from swarmd.fair.bucket import Bucket


def test_a_full_bucket_gives_its_burst_at_once_and_no_more() -> None:
    bucket = Bucket.full(1.0, 10.0, now=0.0)
    assert [bucket.take(10.0, 0.0), bucket.take(0.5, 0.0)] == [True, False]


def test_nothing_is_taken_when_not_all_is_there() -> None:
    bucket = Bucket.full(1.0, 10.0, now=0.0)
    bucket.take(11.0, 0.0)
    assert bucket.level == 10.0


def test_it_fills_with_time_and_stops_when_full() -> None:
    bucket = Bucket.full(2.0, 10.0, now=0.0)
    bucket.take(10.0, 0.0)
    levels = []
    for now in (1.0, 3.0, 1000.0):
        bucket.holds(0.0, now)
        levels.append(bucket.level)
    assert levels == [2.0, 6.0, 10.0]


def test_a_debt_is_paid_off_before_anything_is_allowed() -> None:
    bucket = Bucket.full(1.0, 10.0, now=0.0)
    bucket.charge(15.0, 0.0)
    assert [bucket.holds(1.0, now) for now in (0.0, 5.0, 6.0)] == [False, False, True]


@pytest.mark.parametrize("back_s", [0.5, 3600.0])
def test_a_clock_that_is_set_back_gains_nothing_and_does_not_stop_it(back_s: float) -> None:
    bucket = Bucket.full(1.0, 10.0, now=10_000.0)
    bucket.take(10.0, 10_000.0)
    assert not bucket.take(0.1, 10_000.0 - back_s)
    assert bucket.take(1.0, 10_000.0 - back_s + 1.0)


@pytest.mark.parametrize("seed", range(50))
def test_whatever_is_asked_of_it_the_sum_is_bounded(seed: int) -> None:
    rng = random.Random(seed)
    rate, burst = rng.uniform(0.1, 50), rng.uniform(1, 500)
    bucket, now, taken = Bucket.full(rate, burst, now=0.0), 0.0, 0.0
    for _ in range(400):
        now += rng.expovariate(1.0) * rng.choice((0.0, 0.1, 10.0))
        amount = rng.uniform(0, burst * rng.choice((0.1, 1.5)))
        taken += amount if bucket.take(amount, now) else 0.0
        assert 0.0 <= bucket.level <= burst
        assert taken <= (rate * now + burst) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(50))
def test_what_is_charged_afterwards_exceeds_the_bound_by_one_charge_at_most(seed: int) -> None:
    rng = random.Random(seed)
    rate, burst, cost_max = rng.uniform(0.1, 50), rng.uniform(1, 500), rng.uniform(1, 1000)
    bucket, now, charged = Bucket.full(rate, burst, now=0.0), 0.0, 0.0
    for _ in range(400):
        now += rng.expovariate(1.0)
        if bucket.holds(1e-3, now):
            cost = rng.uniform(0, cost_max)
            bucket.charge(cost, now)
            charged += cost
        assert bucket.level <= burst
        assert charged <= (rate * now + burst + cost_max) * (1 + 1e-9)
