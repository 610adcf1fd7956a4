"""Divisors as upstream lists them, also where upstream would take minutes."""

import math
import random
from importlib import import_module

import pytest

from swarmd.questions.divisors import common_divisors, factors, is_prime
from swarmd.questions.regenerate import DatasetChoice, QuestionSource


def upstream(a: int, b: int) -> list[int]:
    """The package's own loop, step by step."""
    number, divisors, i = math.gcd(a, b), [], 1
    while i * i <= number:
        if number % i == 0:
            divisors += [i] if i * i == number else [i, number // i]
        i += 1
    return divisors


def test_the_list_equals_upstreams() -> None:
    rng = random.Random(4)
    for number in [*range(2000), *(rng.randrange(10**9) for _ in range(50)), 2003**2, 2003 * 2011, 46_339**2]:
        assert common_divisors(number, 0) == upstream(number, 0)


@pytest.mark.parametrize(("a", "b"), [(0, 0), (0, -12), (-84, 36), (7, 5)])
def test_two_numbers_and_signs(a: int, b: int) -> None:
    assert common_divisors(a, b) == upstream(a, b)


@pytest.mark.parametrize(
    "number",
    [
        9_999_999_967 * 9_999_999_943,
        2**64 - 59,
        (2**31 - 1) ** 2,
        9973**5,
        2003 * 2011 * 2017,
        3_215_031_751,
        720_720**3,
    ],
)
def test_large_numbers_come_apart(number: int) -> None:
    found = factors(number)
    assert math.prod(prime**power for prime, power in found.items()) == number
    assert all(is_prime(prime) for prime in found)


@pytest.mark.parametrize("number", [0, 1, 4, 561, 1_373_653, 3_215_031_751, 3_825_123_056_546_413_051])
def test_pseudoprimes_are_not_primes(number: int) -> None:
    assert not is_prime(number)


def test_the_question_that_took_seconds_is_the_same() -> None:
    """The list is the only thing that upstream's generator takes from its own loop."""
    source = QuestionSource(DatasetChoice("basic_arithmetic", {}, "exact"))
    module = import_module("reasoning_gym.arithmetic.basic_arithmetic")
    assert module.find_common_divisors is common_divisors
    ours = [source.item(seed) for seed in range(300)]
    module.find_common_divisors = upstream
    try:
        assert [source.item(seed) for seed in range(300)] == ours
    finally:
        module.find_common_divisors = common_divisors
