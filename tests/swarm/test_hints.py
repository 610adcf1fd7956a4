"""Hints in virtual time: each bound at its last place and one past it."""

import itertools
from collections.abc import Iterable

import pytest

from swarmd.protocol.signing import Identity
from swarmd.swarm.addresses import PeerAddress, parse
from swarmd.swarm.hints import (
    FAILURES_MAX,
    WAITING_MAX,
    WAITING_PER_TELLER_MAX,
    WAITING_S_MAX,
    WINDOW_S,
    Hints,
)
from tests.swarm.nodes import seed

IDS = [Identity.from_seed(seed(number)).peer_id for number in range(8)]


def hint(host: str, port: int = 4810, number: int = 0) -> PeerAddress:
    family = "ip6" if ":" in host else "ip4"
    address = parse(f"/{family}/{host}/tcp/{port}/p2p/{IDS[number]}")
    assert address is not None
    return address


def elsewhere(num: int) -> list[PeerAddress]:
    """Hints to so many machines, each in a net of its own."""
    return [hint(f"8.{number // 200}.{number % 200}.1") for number in range(num)]


def dialled(
    hints: Hints, told: Iterable[tuple[PeerAddress, str]], now: float = 0.0, *, ok: bool = False
) -> int:
    """Tell these one by one, dial what may be dialled, and count; each dial ends at once."""
    num = 0
    for address, teller in told:
        hints.tell(address, teller, now)
        while (taken := hints.take(now, lambda one: True)) is not None:
            hints.ended(taken, connected=ok, now=now)
            num += 1
    return num


def many_tellers() -> Iterable[str]:
    return (f"teller {number}" for number in itertools.count())


def test_a_machine_gets_three_vain_dials_an_hour_whoever_names_it():
    hints = Hints()
    told = [hint("8.8.8.8", port) for port in range(2000, 2100)]
    assert dialled(hints, zip(told, many_tellers(), strict=False)) == FAILURES_MAX["machine"] == 3
    assert dialled(hints, [(hint("8.8.8.8", 9000), "another")], WINDOW_S - 1) == 0
    assert dialled(hints, [(hint("8.8.8.8", 9000), "another")], WINDOW_S) == 1


def test_a_machine_of_ipv6_cannot_hide_in_its_64():
    hints = Hints()
    told = [hint(f"2a00:1:2:3::{number:x}") for number in range(1, 50)]
    assert dialled(hints, zip(told, many_tellers(), strict=False)) == FAILURES_MAX["machine"]


@pytest.mark.parametrize("form", ["8.8.8.{}", "2a00:1:2:{}::1"])
def test_a_net_gets_twelve_vain_dials_an_hour(form):
    hints = Hints()
    told = [hint(form.format(number)) for number in range(1, 100)]
    assert dialled(hints, zip(told, many_tellers(), strict=False)) == FAILURES_MAX["net"] == 12


def test_one_liar_alone_cannot_hide_a_machine_or_a_net():
    hints = Hints()
    assert dialled(hints, [(hint("8.8.8.8", port), "liar") for port in range(2000, 2100)]) == 2
    assert dialled(hints, [(hint("8.8.8.8"), "honest")], ok=True) == 1
    assert dialled(hints, [(hint(f"9.9.9.{n}"), "liar") for n in range(1, 100)]) == 6
    assert dialled(hints, [(hint("9.9.9.9", 5000), "honest")], ok=True) == 1


def test_a_teller_causes_thirty_two_vain_dials_an_hour():
    hints = Hints()
    assert dialled(hints, ((one, "liar") for one in elsewhere(100))) == FAILURES_MAX["teller"] == 32
    assert dialled(hints, [(hint("9.9.9.9"), "another")]) == 1


def test_all_together_cause_256_vain_dials_an_hour():
    hints = Hints()
    assert dialled(hints, zip(elsewhere(400), many_tellers(), strict=False)) == FAILURES_MAX["all"] == 256


def test_a_hint_that_failed_is_not_taken_again_for_an_hour():
    hints = Hints()
    assert dialled(hints, [(hint("8.8.8.8"), "one")]) == 1
    assert not hints.tell(hint("8.8.8.8"), "another", WINDOW_S - 1)
    assert hints.tell(hint("8.8.8.8"), "another", WINDOW_S)


def test_what_succeeds_costs_nothing():
    hints = Hints()
    told = [(hint("8.8.8.8", port), "honest") for port in range(2000, 2100)]
    assert dialled(hints, told, ok=True) == 100


def test_dials_under_way_count_as_failures():
    hints = Hints()
    for port, teller in zip(range(2000, 2010), many_tellers(), strict=False):
        hints.tell(hint("8.8.8.8", port), teller, 0.0)
    taken = [hints.take(0.0, lambda one: True) for _ in range(5)]
    assert [one is not None for one in taken] == [True, True, True, False, False]


def test_in_our_own_network_only_what_failed_counts():
    hints = Hints()
    for port in range(2000, 2010):
        hints.tell(hint("127.0.0.1", port), "liar", 0.0, is_near=True)
    taken = [hints.take(0.0, lambda one: True) for _ in range(8)]
    for one in taken[:2]:
        hints.ended(one, connected=False, now=0.0)
    assert None not in taken
    assert hints.take(0.0, lambda one: True) is None


def test_a_teller_holds_sixteen_places():
    hints = Hints()
    taken = [hints.tell(one, "liar", 0.0) for one in elsewhere(20)]
    assert sum(taken) == WAITING_PER_TELLER_MAX == 16


def test_eight_liars_that_fill_the_table_make_room_for_an_honest_teller():
    hints = Hints()
    for one, teller in itertools.product(elsewhere(16), [f"liar {number}" for number in range(8)]):
        hints.tell(one, teller, 0.0)
    honest = [hints.tell(hint("9.9.9.9", port), "honest", 0.0) for port in range(2000, 2010)]
    assert hints.num_waiting == WAITING_MAX
    assert all(honest)


def test_tellers_take_turns():
    hints = Hints()
    for one in elsewhere(16):
        hints.tell(one, "liar", 0.0)
    hints.tell(hint("9.9.9.9"), "honest", 0.0)
    taken = [hints.take(0.0, lambda one: True) for _ in range(2)]
    assert hint("9.9.9.9") in taken


def test_a_hint_that_a_liar_told_too_is_still_the_honest_tellers():
    # given a liar that has used up its vain dials, and knows a good address
    hints = Hints()
    dialled(hints, ((one, "liar") for one in elsewhere(32)))
    hints.tell(hint("9.9.9.9"), "liar", 0.0)
    assert hints.take(0.0, lambda one: True) is None
    # when an honest peer names the same
    hints.tell(hint("9.9.9.9"), "honest", 0.0)
    # then
    assert hints.take(0.0, lambda one: True) == hint("9.9.9.9")


def test_what_is_not_wanted_waits_for_ten_minutes():
    hints = Hints()
    hints.tell(hint("8.8.8.8"), "one", 0.0)
    assert hints.take(WAITING_S_MAX - 1, lambda one: False) is None
    assert hints.num_waiting == 1
    assert hints.take(WAITING_S_MAX, lambda one: True) is None
    assert hints.num_waiting == 0


def test_after_an_hour_of_silence_nothing_is_left():
    hints = Hints()
    dialled(hints, zip(elsewhere(100), many_tellers(), strict=False))
    hints.take(WINDOW_S + WAITING_S_MAX, lambda one: True)
    assert hints == Hints()
