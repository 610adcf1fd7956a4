"""What is believed of addresses, and what is passed on. No network."""

import pytest

from swarmd.protocol.signing import Identity
from swarmd.swarm.addresses import PeerAddress, parse
from swarmd.swarm.hearsay import AT_HOME_MAX, acceptable, at_home, believable, voice
from tests.swarm.nodes import seed

ID = Identity.from_seed(seed(1)).peer_id
OTHER = Identity.from_seed(seed(2)).peer_id


def at(host: str, peer_id: str = ID, port: int = 4810) -> PeerAddress:
    address = parse(f"{host}/tcp/{port}/p2p/{peer_id}")
    assert address is not None
    return address


@pytest.mark.parametrize(
    ("claim", "believed"),
    [
        (at("/ip4/10.0.0.7"), at("/ip4/10.0.0.7")),
        (at("/ip4/0.0.0.0"), at("/ip4/10.0.0.7")),  # it listens everywhere: we see where it is
        (at("/ip4/10.0.0.8"), None),  # somebody else's address
        (at("/ip4/10.0.0.7", OTHER), None),  # somebody else's id
        (at("/dns4/victim.example"), None),
        (at("/ip4/0.0.0.0", port=0), None),
        (at("/ip4/0.0.0.0", port=1023), None),
        (at("/ip4/0.0.0.0", port=1024), at("/ip4/10.0.0.7", port=1024)),
    ],
)
def test_a_peer_is_believed_only_about_itself(claim, believed):
    assert believable([claim], ID, "10.0.0.7") == believed


def test_addresses_at_home_are_a_peers_own_and_few():
    home = [at(f"/ip4/192.168.1.{number}") for number in range(1, 9)]
    others = [
        at("/ip4/9.9.9.9"),  # everybody may know it
        at("/ip4/127.0.0.1"),
        at("/ip4/169.254.1.1"),
        at("/ip4/192.168.1.9", OTHER),
        at("/ip4/192.168.1.9", port=1023),
        at("/dns4/router.example"),
    ]
    assert at_home([*others, *home], ID) == home[:AT_HOME_MAX]


@pytest.mark.parametrize(
    ("hint", "teller", "taken"),
    [
        ("/ip4/192.168.1.7", "9.9.9.9", True),
        ("/ip4/127.0.0.1", "9.9.9.9", False),
        ("/ip4/169.254.169.254", "9.9.9.9", False),
        ("/ip4/192.168.1.7", "10.0.0.7", True),
    ],
)
def test_a_peer_that_we_dialled_may_name_our_own_network(hint, teller, taken):
    def takes(near: bool, public: bool) -> bool:
        return acceptable(
            at(hint), teller, is_near=lambda host: near, own_is_public=public, teller_dialled=True
        )

    assert takes(True, False) is taken
    assert not takes(False, False)  # a network that is not ours
    assert not takes(True, True)


def test_nobody_is_believed_to_be_at_an_address_that_has_no_network():
    assert believable([at("/ip4/0.0.0.0")], ID, "169.254.1.1") is None


@pytest.mark.parametrize(
    ("hint", "teller", "near", "taken"),
    [
        ("/ip4/9.9.9.9", "8.8.8.8", False, True),
        ("/ip4/9.9.9.9", "127.0.0.1", False, True),
        ("/ip4/127.0.0.1", "127.0.0.1", True, True),
        ("/ip4/127.0.0.1", "10.0.0.7", True, False),  # nobody makes us knock at our own doors
        ("/ip4/192.168.1.1", "8.8.8.8", True, False),  # nor at our router's
        ("/ip4/192.168.1.1", "192.168.1.9", True, True),
        ("/ip4/192.168.1.1", "192.168.1.9", False, False),  # we are elsewhere
        ("/ip4/192.168.1.1", "10.0.0.7", True, False),  # it is elsewhere
        ("/ip4/10.1.0.1", "10.2.0.1", True, False),
        ("/ip4/100.64.0.1", "100.101.102.103", True, True),
        ("/ip4/100.64.0.1", "8.8.8.8", True, False),
        ("/ip6/fd00:1:2::1", "fd00:1:2:3::1", True, True),
        ("/ip6/fd00:1:3::1", "fd00:1:2::1", True, False),
        ("/ip4/169.254.169.254", "169.254.1.1", True, False),
        ("/ip6/fe80::1", "fe80::2", True, False),
        ("/ip6/::ffff:127.0.0.1", "127.0.0.1", True, False),
        ("/ip6/2002:7f00:1::1", "127.0.0.1", True, False),
        ("/ip6/64:ff9b::7f00:1", "8.8.8.8", True, False),
        ("/dns4/inside.example", "8.8.8.8", True, False),
        ("/dns4/localhost", "127.0.0.1", True, False),
        ("/ip4/0.0.0.0", "127.0.0.1", True, False),
    ],
)
def test_a_hint_leads_into_a_local_network_only_if_its_teller_and_we_are_there(hint, teller, near, taken):
    assert acceptable(at(hint), teller, is_near=lambda host: near, own_is_public=False) is taken


@pytest.mark.parametrize(("port", "taken"), [(0, False), (22, False), (1023, False), (1024, True)])
def test_ports_of_the_system_are_not_dialled_on_a_strangers_word(port, taken):
    hint = at("/ip4/9.9.9.9", port=port)
    assert acceptable(hint, "8.8.8.8", is_near=lambda host: False, own_is_public=False) is taken


def test_a_public_node_takes_no_local_address_since_a_proxy_makes_strangers_neighbours():
    assert not acceptable(at("/ip4/127.0.0.1"), "127.0.0.1", is_near=lambda host: True, own_is_public=True)


@pytest.mark.parametrize(
    ("address", "asker", "told"),
    [
        ("/ip4/9.9.9.9", "8.8.8.8", True),
        ("/ip4/192.168.1.1", "8.8.8.8", False),
        ("/ip4/192.168.1.1", "192.168.1.9", True),
        ("/ip4/127.0.0.1", "192.168.1.9", False),
        ("/dns4/node.example", "8.8.8.8", False),
    ],
)
def test_an_asker_is_told_only_what_it_may_take(address, asker, told):
    assert acceptable(at(address), asker, is_near=lambda host: True, own_is_public=False) is told


def test_all_peers_of_a_public_net_speak_with_one_voice():
    assert voice("8.8.8.8", ID) == voice("8.8.8.9", OTHER)
    assert voice("127.0.0.1", ID) != voice("127.0.0.1", OTHER)
