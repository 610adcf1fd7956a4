"""Backoff: alone for longer with each fall, back author by author, and no order of attacks costs a tenth of 600 rounds."""

import json
import random
from collections.abc import Iterable

import pytest

from swarmd.loops.canary.backoff import AUTHORS_MAX, FORGOTTEN_AFTER, Backoff
from tests.attack.worst import EVERY_ROUNDS as EVERY
from tests.attack.worst import most_lost

ANN, BOB, EVE, ZOE = (letter * 32 for letter in (b"a", b"b", b"e", b"z"))


def good(backoff: Backoff, num: int = 1, *, used: Iterable[bytes] = ()) -> Backoff:
    """So many good blocks; others have a part in those that are not alone."""
    for _ in range(num):
        backoff = (backoff if backoff.alone else backoff.used(used)).good()
    return backoff


def fell(backoff: Backoff, *used: bytes, round: int = 1) -> Backoff:
    """A block with these authors that ends in a fall."""
    return backoff.used(used).fell(round)


def admitted(backoff: Backoff, *authors: bytes, seed: int = 0) -> set[bytes]:
    return backoff.admitted(authors, random.Random(seed))


def names(num: int) -> list[bytes]:
    return [number.to_bytes(32, "big") for number in range(num)]


# Alone.


def test_nobody_is_kept_out_before_a_fall() -> None:
    backoff = good(Backoff(), 9, used=[ANN])
    assert (backoff.alone, backoff.rounds(EVERY)) == (False, EVERY)
    assert admitted(backoff, ANN, BOB) == {ANN, BOB}


def test_each_fall_is_answered_with_four_times_as_many_blocks_alone_up_to_sixteen() -> None:
    backoff, alone = Backoff(), []
    for round in range(5):
        backoff = fell(backoff, EVE, round=round)
        alone.append(backoff.num_alone)
        assert admitted(backoff, ANN) == set()
        backoff = good(backoff, backoff.num_alone)
        assert not backoff.alone
    assert alone == [1, 4, 16, 16, 16]
    assert backoff.falls == (2, 3, 4)


def test_a_good_block_does_not_forget_a_fall_but_fifty_do() -> None:
    backoff = good(fell(Backoff(), EVE), 1 + FORGOTTEN_AFTER - 1, used=[ANN])
    assert (backoff.falls, backoff.rounds(EVERY)) == ((1,), EVERY // 2)
    backoff = good(backoff, used=[ANN])
    assert (backoff.falls, backoff.rounds(EVERY)) == ((), EVERY)


def test_falls_are_forgotten_one_by_one() -> None:
    backoff = fell(fell(Backoff(), EVE, round=1), EVE, round=2)
    backoff = good(backoff, 4 + FORGOTTEN_AFTER, used=[ANN])
    assert backoff.falls == (2,)
    assert good(backoff, FORGOTTEN_AFTER, used=[ANN]).falls == ()


def test_a_suspicion_that_is_left_open_is_followed_by_a_block_alone_once_others_had_a_part() -> None:
    assert Backoff().used([ANN]).doubtful().num_alone == 1
    assert not Backoff().doubtful().alone
    assert good(Backoff().used([ANN]).doubtful()).falls == ()


def test_who_falls_alone_forgives_the_others() -> None:
    backoff = fell(Backoff(), EVE).exculpated()
    assert (backoff.falls, backoff.alone, admitted(backoff, ANN)) == ((), False, {ANN})


@pytest.mark.parametrize(("num_rounds", "share_max"), [(600, 0.1), (1200, 0.07), (2000, 0.06)])
def test_no_order_of_attacks_costs_a_tenth(num_rounds: int, share_max: float) -> None:
    assert most_lost(num_rounds - EVERY, Backoff()) <= share_max * num_rounds


# Back.


def test_others_come_back_by_doubling() -> None:
    swarm = names(40)
    backoff, num_back = good(fell(Backoff(), *swarm)), []
    for _ in range(7):
        back = admitted(backoff, *swarm)
        num_back.append(len(back))
        backoff = good(backoff, used=back)
    assert num_back == [1, 2, 4, 8, 16, 32, 40]


def test_in_one_block_they_stay_the_same() -> None:
    backoff = good(good(fell(Backoff(), *names(9))), used=[names(9)[0]])
    for round in range(20):
        backoff = backoff.used(admitted(backoff, *names(9), seed=round))
    assert len(backoff.block) == 2


def test_who_did_well_before_comes_back_before_names_that_nobody_knows() -> None:
    backoff = good(fell(good(Backoff(), 5, used=[ANN]), ANN, EVE))
    assert all(admitted(backoff, ANN, EVE, ZOE, seed=seed) == {ANN} for seed in range(9))


def test_who_was_in_no_fallen_block_comes_back_first() -> None:
    backoff = good(fell(good(Backoff(), 5, used=[ANN, BOB]), ANN))
    assert admitted(backoff, ANN, BOB) == {BOB}


def test_who_fell_twice_is_kept_out_and_comes_back_alone_of_its_kind() -> None:
    backoff = fell(fell(Backoff(), ANN, EVE, ZOE), EVE, ZOE)
    backoff = good(backoff, 4 + 2 * FORGOTTEN_AFTER - 1, used=[ANN])
    assert admitted(backoff, ANN, EVE, ZOE) == {ANN}  # a fall is remembered
    backoff = good(backoff, used=[ANN])
    tried = admitted(backoff, ANN, EVE, ZOE) - {ANN}
    assert len(tried) == 1
    assert admitted(backoff.used(tried), ANN, EVE, ZOE, seed=5) == {ANN, *tried}
    assert len(admitted(good(backoff, used=tried), ANN, EVE, ZOE)) == 3


def test_who_falls_again_is_kept_out_four_times_as_long() -> None:
    backoff, kept_out = Backoff(), []
    for _ in range(6):
        backoff = fell(backoff, EVE)
        kept_out.append(backoff.conducts[EVE].out_until)
    assert kept_out == [0, 16, 64, 256, 1024, 1024]


def test_a_flood_of_names_does_not_grow_what_is_remembered() -> None:
    backoff = Backoff()
    for number in range(3):
        backoff = fell(backoff, *(bytes([number]) + name[1:] for name in names(AUTHORS_MAX)))
    assert len(backoff.conducts) == AUTHORS_MAX
    assert len(json.dumps(backoff.to_state())) < 100 * AUTHORS_MAX


def test_it_survives_a_checkpoint() -> None:
    backoff = good(fell(good(Backoff(), 3, used=[ANN]), ANN, EVE)).used([BOB])
    assert Backoff.from_state(json.loads(json.dumps(backoff.to_state()))) == backoff
