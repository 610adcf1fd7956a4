"""Turns: equal parts of the time, however dear one's messages are, and nothing saved up."""

import random

import pytest

from swarmd.fair.turns import Turns


def test_of_equals_the_first_is_next() -> None:
    turns = Turns[str]()
    for name in "ab":
        turns.begin(name)
    assert [turns.next(["a", "b"]), turns.next(["b", "a"])] == ["a", "b"]


def test_who_was_served_longer_waits_until_the_others_had_as_much() -> None:
    turns = Turns[str]()
    for name in "ab":
        turns.begin(name)
    turns.charge("a", 1.0)
    served = []
    for _ in range(5):
        served.append(turns.next(["a", "b"]))
        turns.charge(served[-1], 0.3)
    assert served == ["b", "b", "b", "b", "a"]


def test_who_was_away_saved_nothing_up() -> None:
    turns = Turns[str]()
    turns.begin("away")
    turns.begin("here")
    for _ in range(100):
        turns.charge(turns.next(["here"]), 1.0)
    turns.begin("away")
    served = []
    for _ in range(10):
        served.append(turns.next(["away", "here"]))
        turns.charge(served[-1], 1.0)
    assert served.count("away") in (5, 6)


def test_who_had_much_and_comes_back_at_once_still_had_it() -> None:
    turns = Turns[str]()
    turns.begin("dear")
    turns.charge(turns.next(["dear"]), 10.0)
    turns.begin("dear")
    turns.begin("new")
    assert turns.next(["dear", "new"]) == "new"


def test_nobody_waits() -> None:
    with pytest.raises(ValueError):
        Turns[str]().next([])


def test_names_are_bounded() -> None:
    turns = Turns[int](names_max=8)
    for name in range(100):
        turns.begin(name)
    assert len(turns._served_s) == 8


@pytest.mark.parametrize("seed", range(20))
def test_all_who_always_wait_get_the_same_time(seed: int) -> None:
    """Whatever one message of theirs costs, no two differ by more than their two dearest messages."""
    rng, turns = random.Random(seed), Turns[int]()
    costs = [rng.choice([0.001, 0.01, 0.8]) for _ in range(6)]
    served = [0.0] * 6
    for name in range(6):
        turns.begin(name)
    for _ in range(5000):
        name = turns.next(range(6))
        served[name] += costs[name]
        turns.charge(name, costs[name])
    assert max(served) - min(served) <= 2 * max(costs)
