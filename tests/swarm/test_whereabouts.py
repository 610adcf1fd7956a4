"""What is passed on of where peers are: only what is known to work, and homes to those at home. No network."""

import pytest

from swarmd.protocol.signing import Identity
from swarmd.swarm.addresses import PeerAddress, parse
from swarmd.swarm.whereabouts import KNOCK_HOLDS_S, VAIN_PER_MACHINE_MAX, VAIN_WINDOW_S, Whereabouts
from tests.swarm.nodes import seed

A, B, C = (Identity.from_seed(seed(number)).peer_id for number in (1, 2, 3))


def at(host: str, peer_id: str = A, port: int = 4810) -> PeerAddress:
    address = parse(f"/ip4/{host}/tcp/{port}/p2p/{peer_id}")
    assert address is not None
    return address


@pytest.fixture
def peers() -> Whereabouts:
    return Whereabouts(lambda host: host.startswith("10."))


def claim(peers: Whereabouts, peer_id: str, seen: str, *hosts: str) -> None:
    peers.claims(peer_id, [at(host, peer_id) for host in hosts], seen)


def knock(peers: Whereabouts, peer_id: str, now: float, *, reached: bool) -> None:
    address = peers.to_knock(peer_id, now)
    assert address is not None
    peers.knocking(address, now)
    peers.knocked(address, now, reached=reached)


def test_a_claim_is_passed_on_once_a_knock_was_answered(peers: Whereabouts) -> None:
    claim(peers, A, "1.1.1.1", "0.0.0.0")
    assert (peers.told_to("2.2.2.2", [A]), peers.reached(A)) == ([], None)
    knock(peers, A, 0.0, reached=True)
    assert (peers.told_to("2.2.2.2", [A]), peers.reached(A)) == ([at("1.1.1.1").text], True)


def test_what_a_router_hides_is_not_passed_on(peers: Whereabouts) -> None:
    claim(peers, A, "1.1.1.1", "0.0.0.0")
    knock(peers, A, 0.0, reached=False)
    assert (peers.told_to("2.2.2.2", [A]), peers.reached(A)) == ([], False)


def test_in_our_own_network_a_word_suffices(peers: Whereabouts) -> None:
    claim(peers, A, "10.0.0.7", "10.0.0.7")
    assert peers.to_knock(A, 0.0) is None
    assert peers.told_to("10.0.0.8", [A]) == [at("10.0.0.7").text]


def test_what_we_dialled_needs_no_knock_and_is_told_first(peers: Whereabouts) -> None:
    claim(peers, B, "3.3.3.3", "0.0.0.0")
    knock(peers, B, 0.0, reached=True)
    peers.dialled(at("1.1.1.1"))
    claim(peers, A, "1.1.1.1", "0.0.0.0")
    assert peers.to_knock(A, 0.0) is None
    assert peers.reached(A) is True
    assert peers.told_to("2.2.2.2", [B, A]) == [at("1.1.1.1").text, at("3.3.3.3", B).text]


def test_peers_from_one_outside_address_are_told_each_others_local_addresses(peers: Whereabouts) -> None:
    claim(peers, A, "1.1.1.1", "0.0.0.0", "192.168.1.11")
    claim(peers, B, "1.1.1.1", "0.0.0.0", "192.168.1.12")
    claim(peers, C, "2.2.2.2", "0.0.0.0", "192.168.1.11")
    assert peers.told_to("1.1.1.1", [B, C]) == [at("192.168.1.12", B).text, at("1.1.1.1", B).text]
    assert peers.told_to("2.2.2.2", [A, B]) == []  # nobody else's home
    assert peers.told_to("1.1.1.2", [A, B]) == []


def test_a_home_is_no_home_where_the_outside_address_is_local(peers: Whereabouts) -> None:
    """All of loopback, or of a carrier's network, is not one home."""
    claim(peers, A, "192.168.7.7", "192.168.1.11")
    assert peers.told_to("192.168.7.7", [A]) == []


def test_a_knock_is_repeated_only_after_a_while(peers: Whereabouts) -> None:
    claim(peers, A, "1.1.1.1", "0.0.0.0")
    knock(peers, A, 0.0, reached=False)
    claim(peers, A, "1.1.1.1", "0.0.0.0")
    assert peers.to_knock(A, KNOCK_HOLDS_S - 1) is None
    knock(peers, A, KNOCK_HOLDS_S, reached=True)
    assert peers.reached(A) is True


def test_another_claim_is_not_known_to_work(peers: Whereabouts) -> None:
    claim(peers, A, "1.1.1.1", "0.0.0.0")
    knock(peers, A, 0.0, reached=True)
    peers.claims(A, [at("1.1.1.1", port=4811)], "1.1.1.1")
    assert peers.reached(A) is None
    assert peers.to_knock(A, 1.0) == at("1.1.1.1", port=4811)


def test_a_late_answer_about_another_claim_does_not_count(peers: Whereabouts) -> None:
    claim(peers, A, "1.1.1.1", "0.0.0.0")
    old = peers.to_knock(A, 0.0)
    assert old is not None
    peers.claims(A, [at("1.1.1.1", port=4811)], "1.1.1.1")
    peers.knocked(old, 1.0, reached=True)
    assert peers.reached(A) is None


def test_names_at_one_machine_cannot_have_us_knock_there_without_end(peers: Whereabouts) -> None:
    ids = [Identity.from_seed(seed(number)).peer_id for number in range(10, 30)]
    for peer_id in ids:
        claim(peers, peer_id, "1.1.1.1", "0.0.0.0")
    num_knocks = 0
    for peer_id in ids:
        if peers.to_knock(peer_id, 0.0) is not None:
            knock(peers, peer_id, 0.0, reached=False)
            num_knocks += 1
    assert num_knocks == VAIN_PER_MACHINE_MAX
    assert peers.to_knock(ids[-1], VAIN_WINDOW_S + 1) is not None


def test_a_peer_that_left_is_forgotten(peers: Whereabouts) -> None:
    peers.dialled(at("1.1.1.1"))
    peers.forget(A)
    assert peers.told_to("2.2.2.2", [A]) == []
    peers.knocked(at("1.1.1.1"), 0.0, reached=True)  # a knock that was under way
    assert peers.reached(A) is None
