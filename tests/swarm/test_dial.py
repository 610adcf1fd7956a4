"""One dial: names are looked up as this machine does it, and a knock makes no connection."""

import socket

import pytest
import trio

from swarmd.protocol.signing import Identity
from swarmd.swarm.addresses import PeerAddress, parse
from swarmd.swarm.dial import ADDRESSES_PER_NAME_MAX, Dialled, dial, knock, numeric_addresses
from tests.swarm.nodes import Node, seed, until


def address(text: str) -> PeerAddress:
    found = parse(text)
    assert found is not None
    return found


class Resolver(trio.abc.HostnameResolver):
    """Knows what it is given."""

    def __init__(self, *answers: str, error: int | None = None) -> None:
        self._answers, self._error = answers, error

    async def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):
        if self._error is not None:
            raise socket.gaierror(self._error, "no")
        wanted = [a for a in self._answers if family in (0, socket.AF_INET6 if ":" in a else socket.AF_INET)]
        return [(socket.AF_INET, type, 6, "", (answer, port)) for answer in wanted]

    async def getnameinfo(self, sockaddr, flags):
        raise NotImplementedError


@pytest.fixture
def peer_id() -> str:
    return Identity.from_seed(seed(9)).peer_id


@pytest.mark.parametrize(
    ("kind", "hosts"),
    [("dns", ["1.1.1.1", "2a00::1"]), ("dns4", ["1.1.1.1"]), ("dns6", ["2a00::1"])],
)
async def test_a_name_is_the_addresses_of_its_kind(peer_id, kind, hosts):
    trio.socket.set_custom_hostname_resolver(Resolver("1.1.1.1", "2a00::1", "1.1.1.1"))
    found = await numeric_addresses(address(f"/{kind}/node.example/tcp/4810/p2p/{peer_id}"))
    assert [one.host for one in found] == hosts


async def test_of_a_name_with_many_addresses_some_are_tried(peer_id):
    trio.socket.set_custom_hostname_resolver(Resolver(*[f"1.1.1.{number}" for number in range(99)]))
    found = await numeric_addresses(address(f"/dns4/node.example/tcp/4810/p2p/{peer_id}"))
    assert len(found) == ADDRESSES_PER_NAME_MAX


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (socket.EAI_NONAME, Dialled.NAME_UNKNOWN),
        (socket.EAI_AGAIN, Dialled.NO_RESOLVER),
        (socket.EAI_FAIL, Dialled.NO_RESOLVER),
    ],
)
async def test_a_name_without_an_address_has_a_reason(peer_id, error, result):
    trio.socket.set_custom_hostname_resolver(Resolver(error=error))
    assert await numeric_addresses(address(f"/dns4/node.example/tcp/4810/p2p/{peer_id}")) is result


async def test_the_second_address_of_a_name_is_tried(nursery):
    first, second = await Node(1).start(nursery), await Node(2).start(nursery)
    port = first.address.split("/")[4]
    trio.socket.set_custom_hostname_resolver(Resolver("127.0.0.2", "127.0.0.1"))
    target = address(f"/dns4/node.example/tcp/{port}/p2p/{first.peer_id}")
    assert await dial(second.service._stack.host, target) is Dialled.CONNECTED


async def test_a_knock_finds_the_peer_and_connects_nobody(nursery):
    first, second = await Node(1).start(nursery), await Node(2).start(nursery)
    assert await knock(second.service._stack.host, address(first.address))
    await until(lambda: not first.service._connections.since)
    assert not second.service._connections.since


async def test_a_knock_takes_no_other_peer_and_no_silence(nursery):
    first, second, third = [await Node(number).start(nursery) for number in (1, 2, 3)]
    host = third.service._stack.host
    at_first = first.address.split("/p2p/")[0]
    assert not await knock(host, address(f"{at_first}/p2p/{second.peer_id}"))
    await first.stop()
    assert not await knock(host, address(first.address))
