"""What is told to the local network, and what is taken from it."""

from collections import Counter

import pytest

from swarmd.protocol.signing import Identity
from swarmd.swarm import local_peers
from swarmd.swarm.addresses import parse_listen
from swarmd.swarm.local_peers import LocalPeers, addresses_in, local_hosts
from tests.swarm.nodes import seed

ID = Identity.from_seed(seed(1)).peer_id
ADDRESS = f"/ip4/192.168.1.11/tcp/4810/p2p/{ID}"


def entries(*texts: str) -> bytes:
    return b"".join(bytes([len(text)]) + text.encode() for text in texts)


def test_what_a_node_tells_is_what_another_of_its_swarm_finds() -> None:
    told = LocalPeers(
        listen=parse_listen("/ip4/0.0.0.0/tcp/4810"),
        peer_id=ID,
        topic="the topic",
        found=lambda address: None,
        counters=Counter(),
    )._entries(["192.168.1.11", "10.0.0.1"])
    found = [address.text for address in addresses_in(told, "the topic")]
    assert found == [ADDRESS, f"/ip4/10.0.0.1/tcp/4810/p2p/{ID}"]
    assert addresses_in(told, "another topic") == []


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff",
        b"\x05ab",
        entries(f"dnsaddr={ADDRESS}"),  # of which swarm?
        entries("swarm=topic", "dnsaddr=", "dnsaddr=/ip4/1.2.3.4", "dnsaddr=\x00\x1b", "other=1", ""),
        entries("swarm=topic", *["x"] * local_peers.ENTRIES_MAX, f"dnsaddr={ADDRESS}"),
    ],
)
def test_what_is_no_address_of_this_swarm_is_passed_over(text: bytes) -> None:
    assert addresses_in(text, "topic") == []


@pytest.mark.parametrize(
    ("listen", "hosts"),
    [
        ("/ip4/127.0.0.1/tcp/4810", []),
        ("/ip4/169.254.1.1/tcp/4810", []),
        ("/ip4/192.168.1.11/tcp/4810", ["192.168.1.11"]),
        ("/ip6/::1/tcp/4810", []),
    ],
)
def test_loopback_is_told_to_nobody(listen: str, hosts: list[str]) -> None:
    assert local_hosts(parse_listen(listen)) == hosts


def test_a_node_that_listens_everywhere_tells_no_loopback() -> None:
    assert not [host for host in local_hosts(parse_listen("/ip4/0.0.0.0/tcp/1")) if host.startswith("127.")]
