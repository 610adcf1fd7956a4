"""The canary's decisions: falls are seen, noise is not, and what is remembered leads to one answer."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from swarmd.loops.canary.backoff import Backoff
from swarmd.loops.canary.memory import CONFIRMING, Bounds, Fall, Memory, fall

BOUNDS = Bounds(drop_max=0.05, errors_max=5.0)
NUM_QUESTIONS = 32


def measured(rng: random.Random, chances: Sequence[float], num_completions: int = 1) -> list[float]:
    """Each question's mean of so many right or wrong answers."""
    return [sum(rng.random() < p for _ in range(num_completions)) / num_completions for p in chances]


def falls(rng: random.Random, memory: Memory, chances: Sequence[float]) -> bool:
    """Both looks, as the loop takes them."""
    seen = fall(memory.best, measured(rng, chances))
    return BOUNDS.suspects(seen) and BOUNDS.confirms(fall(memory.best, measured(rng, chances, CONFIRMING)))


def run_in(rng: random.Random, chances: Sequence[float], num: int = 10) -> Memory:
    """A memory after so many good measurements of a policy that stands still."""
    memory = Memory().good(measured(rng, chances, CONFIRMING), round=0)
    for round in range(1, num):
        memory = memory.good(measured(rng, chances), round=round)
    return memory


def test_a_difference_is_taken_question_by_question() -> None:
    # given questions of very different difficulty, each a tenth harder now: no spread, whatever the rewards are
    assert fall([1.0, 0.5, 0.1], [0.9, 0.4, 0.0]).drop == pytest.approx(0.1)
    assert fall([1.0, 0.5, 0.1], [0.9, 0.4, 0.0]).error == pytest.approx(0.0, abs=1e-12)
    # two questions, one of them lost: mean 0.5, sample deviation 0.71 over the root of 2
    assert fall([1.0, 1.0], [1.0, 0.0]) == Fall(0.5, 0.5)


@pytest.mark.parametrize(("best", "now"), [([1.0], [0.0]), ([1.0, 1.0], [1.0]), ([], [])])
def test_what_cannot_be_compared_is_refused(best: list[float], now: list[float]) -> None:
    with pytest.raises(ValueError):
        fall(best, now)


@pytest.mark.parametrize(
    ("seen", "suspects", "confirms"),
    [
        (Fall(0.30, 0.05), True, True),
        (Fall(0.20, 0.05), True, False),  # four errors
        (Fall(0.09, 0.05), False, False),
        (Fall(0.04, 0.001), False, False),  # certain and small
        (Fall(-0.3, 0.01), False, False),
    ],
)
def test_a_fall_is_large_and_certain(seen: Fall, suspects: bool, confirms: bool) -> None:
    assert (BOUNDS.suspects(seen), BOUNDS.confirms(seen)) == (suspects, confirms)


@pytest.mark.parametrize("chance", [0.02, 0.1, 0.3, 0.5, 0.9])
def test_a_policy_that_stands_still_does_not_fall(chance: float) -> None:
    """300 nodes of 50 measurements each, the best always the luckiest so far: at most three false alarms in 15,000 looks."""
    rng, num = random.Random(f"still {chance}"), 0
    for _ in range(300):
        chances = [chance] * NUM_QUESTIONS
        memory = Memory().good(measured(rng, chances, CONFIRMING), round=0)
        for round in range(1, 50):
            if falls(rng, memory, chances):
                num += 1
            elif not BOUNDS.suspects(fall(memory.best, scores := measured(rng, chances))):
                memory = memory.good(scores, round=round)
    assert num <= 3


@pytest.mark.parametrize(
    ("before", "after", "seen_at_least"),
    [(0.1, 0.0, 0.9), (0.3, 0.0, 0.99), (0.3, 0.1, 0.5), (0.5, 0.2, 0.9), (0.9, 0.6, 0.9)],
)
def test_a_policy_that_fell_apart_is_seen(before: float, after: float, seen_at_least: float) -> None:
    rng, num = random.Random(f"fell {before} {after}"), 400
    memories = [run_in(rng, [before] * NUM_QUESTIONS) for _ in range(num)]
    assert sum(falls(rng, memory, [after] * NUM_QUESTIONS) for memory in memories) >= seen_at_least * num


def test_without_the_second_look_noise_would_be_seen() -> None:
    """What the second look is for: of a policy that stands still, the first alone suspects often."""
    rng, num = random.Random(7), 0
    for _ in range(400):
        memory = run_in(rng, [0.3] * NUM_QUESTIONS, 30)
        num += BOUNDS.suspects(fall(memory.best, measured(rng, [0.3] * NUM_QUESTIONS)))
    assert num >= 8


# What is remembered.

ANN, BOB = b"a" * 32, b"b" * 32
GOOD = Memory(key="k").good([0.5, 0.5], round=20).used([ANN, ANN, BOB, ANN])


def test_the_best_fades_slowly_when_later_ones_are_lower() -> None:
    later = GOOD.good([0.0, 0.8], round=40)
    assert later.running == (0.4, 0.56)
    assert later.best == (0.49, 0.506)  # a tenth of the way to what it is now
    assert GOOD.good([1.0, 0.5], round=40).best == (0.6, 0.5)


def test_a_good_measurement_is_what_to_go_back_to_and_forgets_no_fall_before_it() -> None:
    later = GOOD.rolled_back(41).used([ANN]).good([0.5, 0.5], round=60)
    assert (later.good_round, later.num_external, later.backoff.falls) == (60, 0, (41,))


def test_a_low_one_fades_the_best_and_is_none_to_go_back_to() -> None:
    low = GOOD.low([0.0, 0.3], round=40)
    assert (low.measured_round, low.running, low.best) == (40, (0.4, 0.46), (0.49, 0.496))
    assert (low.good_round, low.num_external, low.backoff.alone) == (20, 4, True)


def test_a_good_one_that_could_not_be_saved_is_none_to_go_back_to_and_makes_nobody_alone() -> None:
    unsaved = GOOD.unsaved([0.5, 0.5], round=40)
    assert (unsaved.measured_round, unsaved.good_round, unsaved.num_external) == (40, 20, 4)
    assert not unsaved.backoff.alone


def test_a_fall_of_which_nothing_was_made_moves_nothing_but_the_time() -> None:
    alone = GOOD.rolled_back(41).rolled_back(62)
    assert alone.unsettled(82) == replace(alone, measured_round=82)


def test_a_policy_a_little_below_its_best_is_not_suspected_for_ever() -> None:
    """Three errors under a lucky best, measurement after measurement."""
    scores = [0.3, 0.5] * (NUM_QUESTIONS // 2)
    memory = Memory().good([0.6, 0.5] * (NUM_QUESTIONS // 2), round=0)
    for round in range(30):
        seen = fall(memory.best, scores)
        assert not BOUNDS.confirms(Fall(seen.drop, 0.04))
        memory = memory.low(scores, round=round)
    assert not BOUNDS.suspects(fall(memory.best, scores))


@pytest.mark.parametrize("num_low", [1, 3])
def test_a_fall_that_was_not_confirmed_at_first_is_seen_later(num_low: int) -> None:
    rng, num = random.Random(f"late {num_low}"), 0
    after = [0.2] * NUM_QUESTIONS
    for _ in range(200):
        memory = run_in(rng, [0.5] * NUM_QUESTIONS)
        for round in range(num_low):
            memory = memory.low(measured(rng, after, CONFIRMING), round=round)
        num += falls(rng, memory, after)
    assert num >= 160


def test_after_a_fall_it_is_alone_and_another_is_not_the_swarms() -> None:
    assert (GOOD.can_roll_back, GOOD.backoff.alone) == (True, False)
    once = GOOD.rolled_back(41)
    assert (once.good_round, once.can_roll_back, once.backoff.alone) == (20, False, True)


@pytest.mark.parametrize("memory", [Memory(), Memory().used([ANN]), replace(GOOD, num_external=0)])
def test_there_is_nothing_to_go_back_to_or_nobody_to_doubt(memory: Memory) -> None:
    assert not memory.can_roll_back


def test_what_is_accepted_becomes_the_measure() -> None:
    accepted = GOOD.rolled_back(41).accepted([0.1, 0.1], round=61)
    assert (accepted.best, accepted.good_round, accepted.backoff.falls) == ((0.1, 0.1), 61, ())
    assert accepted.key == "k"


def test_what_is_accepted_although_others_had_a_part_is_a_fall_all_the_same() -> None:
    accepted = GOOD.accepted([0.1, 0.1], round=40)
    assert (accepted.num_external, accepted.backoff.falls, accepted.backoff.alone) == (0, (40,), True)


def test_a_memory_survives_a_checkpoint() -> None:
    fallen = GOOD.rolled_back(41).used([BOB])
    assert Memory.from_state(json.loads(json.dumps(fallen.to_state())), "k") == fallen


def test_a_checkpoint_of_before_there_was_a_backoff_is_taken_up() -> None:
    state = GOOD.to_state() | {"good_ms": 7, "num_falls": 1}
    del state["backoff"]
    assert Memory.from_state(state, "k") == replace(GOOD, backoff=Backoff())


@pytest.mark.parametrize(
    "state",
    [
        None,
        {},
        "nonsense",
        GOOD.to_state() | {"key": "other questions"},
        GOOD.to_state() | {"best": "much"},
        GOOD.to_state() | {"best": [1.0]},
        GOOD.to_state() | {"backoff": None},
        GOOD.to_state() | {"backoff": {"falls": [1]}},
        GOOD.to_state() | {"backoff": GOOD.backoff.to_state() | {"block": ["no key"]}},
        GOOD.to_state() | {"backoff": GOOD.backoff.to_state() | {"records": [["aa", 1, 2, 3, 4]]}},
        {"key": "k"},
    ],
)
def test_a_state_of_no_use_is_a_new_beginning(state: Any) -> None:
    assert Memory.from_state(state, "k") == Memory(key="k")
