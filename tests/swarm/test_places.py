"""Who may come in, and who makes way. No network."""

import math

import pytest

from swarmd.swarm.places import EVICTED_S, GIFT_HOLDS_S, GRACE_S, Places

NOW = 10_000.0


def full_of(*hosts: str, since: float = NOW - 100, inbound_max: int | None = None) -> Places:
    places = Places(inbound_max or len(hosts), 2, 3, 3, 2)
    for number, host in enumerate(hosts):
        places.enter(number, f"peer {number}", host, since + number)
    return places


@pytest.mark.parametrize(
    ("live", "pending", "refusal"),
    [
        ([], [], None),
        (["2.2.2.2"], [], None),
        ([], ["2.2.2.2"] * 3, "inbound_refused_full"),
        ([], ["1.1.1.1"] * 2, "inbound_refused_ip"),
        (["1.1.1.1"] * 2, [], None),  # nobody else wants the places
        (["1.1.1.1"] * 2 + ["2.2.2.2"], [], "inbound_refused_ip"),
        (["1.1.1.2", "1.1.1.3", "1.1.1.4"], [], "inbound_refused_ip"),  # its network
        (["2.2.2.2"] * 2 + ["3.3.3.3"], [], None),
        (["2a00:1:2:3::1", "2a00:1:2:3::2", "2.2.2.2"], [], None),
    ],
)
def test_who_may_begin(live: list[str], pending: list[str], refusal: str | None) -> None:
    places = full_of(*live, inbound_max=6)
    for host in pending:
        places.begin(host)
    assert places.refusal("1.1.1.1", NOW) == refusal


def test_a_machine_in_ipv6_is_a_64() -> None:
    places = full_of("2a00:1:2:3::1", "2a00:1:2:3::2", "2.2.2.2", inbound_max=6)
    assert places.refusal("2a00:1:2:3:4::5", NOW) == "inbound_refused_ip"
    assert places.refusal("2a00:1:2:4::5", NOW) is None


def test_the_idle_one_of_the_largest_network_makes_way() -> None:
    places = full_of("2.2.2.2", "3.3.3.1", "3.3.3.2", "4.4.4.4")
    assert places.to_evict("1.1.1.1", NOW) == 1  # of two alike the one that is there longer


def test_in_a_network_the_machine_with_most_places_goes_first() -> None:
    places = full_of("3.3.3.1", "3.3.3.2", "3.3.3.2", "3.3.3.4")
    assert places.to_evict("1.1.1.1", NOW) == 1


def test_who_gave_lately_stays_whatever_its_network() -> None:
    places = full_of("3.3.3.1", "3.3.3.2", "4.4.4.4")
    given = {"peer 0": NOW - 1, "peer 1": NOW - GIFT_HOLDS_S + 1}
    places.gave_at = lambda peer_id: given.get(peer_id, -math.inf)
    assert places.to_evict("1.1.1.1", NOW) == 2
    given["peer 1"] = NOW - GIFT_HOLDS_S
    assert places.to_evict("1.1.1.1", NOW) == 1
    given.update({"peer 1": NOW, "peer 2": NOW})
    assert places.to_evict("1.1.1.1", NOW) is None
    assert places.refusal("1.1.1.1", NOW) == "inbound_refused_full"


def test_a_newcomer_has_its_seconds() -> None:
    places = full_of("2.2.2.2", "3.3.3.3", since=NOW)
    assert places.refusal("1.1.1.1", NOW + GRACE_S - 0.1) == "inbound_refused_full"
    assert places.refusal("1.1.1.1", NOW + GRACE_S + 1) is None


def test_nobody_makes_way_for_its_own_network_or_a_larger_one() -> None:
    places = full_of("3.3.3.1", "3.3.3.2", "4.4.4.4", "5.5.5.5")
    assert places.to_evict("3.3.3.3", NOW) is None
    assert places.to_evict("4.4.4.5", NOW) is not None
    assert full_of("4.4.4.4", "5.5.5.5").to_evict("4.4.4.5", NOW) is None


def test_who_had_to_leave_pushes_nobody_out_for_a_while() -> None:
    places = full_of("3.3.3.1", "3.3.3.1", "4.4.4.4")
    places.evict(0, NOW)
    places.enter("new", "peer", "1.1.1.1", NOW)
    assert places.to_evict("3.3.3.1", NOW + 10) is None
    places.enter("more", "peer", "4.4.4.4", NOW)
    assert places.to_evict("3.3.3.1", NOW + EVICTED_S) is not None


def test_sixteen_squatters_do_not_keep_newcomers_out() -> None:
    """99 silent connections of 16 addresses, which come again at once, and a newcomer that tries every second."""
    squatters = [f"11.1.{number // 8}.{number % 8 + 1}" for number in range(16)]
    places = Places(100, 8, 32, 64, 4)
    for number in range(99):
        places.enter(number, f"squatter {number}", squatters[number % 16], NOW - 100)
    places.enter("member", "member", "5.5.5.5", NOW - 1000)
    now, number, entered = NOW, 1000, 0
    for newcomer in [f"9.9.{index}.9" for index in range(30)]:
        now += 1.0
        for host in (newcomer, *squatters):
            if places.refusal(host, now) is not None:
                continue
            if len(places.guests) >= places.inbound_max:
                key = places.to_evict(host, now)
                assert key is not None
                assert key != "member"
                places.evict(key, now)
            number += 1
            places.enter(number, host, host, now)
            entered += host == newcomer
    assert entered == 30
    assert "member" in places.guests


def test_places_and_handshakes_come_back() -> None:
    places = full_of("1.1.1.1")
    places.leave(0)
    places.leave(0)
    places.begin("1.1.1.1")
    places.end("1.1.1.1")
    assert (places.guests, places.pending) == ({}, {})
