"""T3: places for inbound connections. The limit of 250 is lowered to 3, so that the test need not make 250 connections."""

import contextlib

import pytest
import trio
import trio.testing
from libp2p.network.exceptions import SwarmException
from libp2p.peer.peerinfo import PeerInfo

from swarmd.swarm.hardening import inbound_limit
from tests.swarm.hardening.kit import ANY_PORT, HARDENED, LONG_S, SHORT_S, STOCK, becomes, both, make_host

PLACES = 3


@both
async def test_places_come_back_when_connections_end_unless_stock(kind):
    host, _ = make_host(kind, inbound_max=PLACES)
    host.get_network()._inbound_limiter = trio.CapacityLimiter(PLACES)
    num_accepted = 0
    async with host.run(listen_addrs=[ANY_PORT]):
        for _ in range(PLACES + 2):
            guest, _ = make_host(HARDENED)
            async with guest.run(listen_addrs=[ANY_PORT]):
                is_full = kind == STOCK and num_accepted == PLACES
                with trio.move_on_after(SHORT_S if is_full else LONG_S):
                    try:
                        await guest.connect(PeerInfo(host.get_id(), host.get_addrs()))
                    except SwarmException:
                        break
                    num_accepted += 1
                await guest.disconnect(host.get_id())
                assert await becomes(lambda: not host.get_network().get_connections())
    assert num_accepted == (PLACES if kind == STOCK else PLACES + 2)


async def test_idle_sockets_of_one_address_are_turned_away():
    host, counters = make_host(HARDENED, pending_per_ip_max=2)
    async with host.run(listen_addrs=[ANY_PORT]):
        port = int(host.get_addrs()[0].value_for_protocol("tcp"))
        sockets = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(5)]
        assert await becomes(lambda: counters["inbound_refused_ip"] == 3)
        for socket in sockets:
            await socket.aclose()
        assert await becomes(lambda: counters["inbound_failed"] == 2)


async def test_a_place_is_free_again_after_a_failed_handshake():
    host, counters = make_host(HARDENED, pending_per_ip_max=1)
    async with host.run(listen_addrs=[ANY_PORT]):
        port = int(host.get_addrs()[0].value_for_protocol("tcp"))
        for num in (1, 2, 3):
            socket = await trio.open_tcp_stream("127.0.0.1", port)
            await socket.send_all(b"not a peer")
            await socket.aclose()
            assert await becomes(lambda num=num: counters["inbound_failed"] == num)
        assert counters["inbound_refused_ip"] == 0


class Socket:
    """A connection of a stranger that says nothing."""

    def __init__(self, host):
        self._host, self.is_closed = host, False

    def get_remote_address(self):
        return self._host, 4810

    async def close(self):
        self.is_closed = True


@pytest.mark.parametrize(
    ("hosts", "num_refused"),
    [
        (["2a01:4f8:1:2::1", "2a01:4f8:1:2:ffff::2", "2a01:4f8:1:2::3%eth0"], 1),
        (["2a01:4f8:1:2::1", "2a01:4f8:1:3::1", "2a01:4f8:1:4::1"], 0),
        (["93.184.216.34", "::ffff:93.184.216.34", "93.184.216.34"], 1),
        (["93.184.216.34", "93.184.216.35", "93.184.216.36"], 0),
    ],
)
async def test_a_machine_is_bounded_whichever_of_its_addresses_it_comes_from(hosts, num_refused, monkeypatch):
    host, counters = make_host(HARDENED, pending_per_ip_max=2)
    monkeypatch.setattr(inbound_limit, "_upgrade", mute)
    async with trio.open_nursery() as nursery:
        for address in hosts:
            nursery.start_soon(host.get_network()._handle_inbound_connection, Socket(address), None)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert counters["inbound_refused_ip"] == num_refused


async def mute(*args):
    await trio.sleep_forever()


async def test_a_newcomer_takes_the_place_of_one_that_gives_nothing(monkeypatch):
    """Which one leaves is made up: all of loopback is one network."""
    host, counters = make_host(HARDENED, inbound_max=2)
    guests = [make_host(HARDENED)[0] for _ in range(3)]
    places = inbound_limit.Places(2, 50, 50, 50, 50)
    monkeypatch.setattr(places, "to_evict", lambda ip, now: next(iter(places.guests)))
    inbound_limit.limit_inbound(host, places, counters)
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(host.run(listen_addrs=[ANY_PORT]))
        for guest in guests:
            await stack.enter_async_context(guest.run(listen_addrs=[ANY_PORT]))
            await guest.connect(PeerInfo(host.get_id(), host.get_addrs()))
        connected = host.get_network().connections
        assert await becomes(lambda: set(connected) == {guest.get_id() for guest in guests[1:]})
        assert await becomes(lambda: not guests[0].get_network().get_connections(host.get_id()))
        assert await becomes(lambda: counters["inbound_accepted"] == 3)
    assert counters["inbound_evicted"] == 1
