"""Taken ports and dead listeners."""

import libp2p.transport.tcp.tcp as stock_tcp
import pytest
import trio
from multiaddr import Multiaddr

from swarmd.errors import PortTaken
from swarmd.swarm import hardening
from swarmd.swarm.hardening import listeners
from tests.swarm.hardening.kit import ANY_PORT, HARDENED, STOCK, both, make_host


@pytest.fixture
def patched(monkeypatch):
    """Put each kind's way of listening into place, and the former way back afterwards."""

    def patch(kind):
        function = listeners.STOCK_OPEN if kind == STOCK else listeners.open_exclusive
        monkeypatch.setattr(stock_tcp, "_open_reuseport_listeners", function)

    return patch


@both
async def test_a_taken_port_is_an_error_unless_stock(kind, patched):
    patched(kind)
    first, _ = make_host(kind)
    second, _ = make_host(kind)
    async with first.run(listen_addrs=[ANY_PORT]):
        port = first.get_addrs()[0].value_for_protocol("tcp")
        address = Multiaddr(f"/ip4/127.0.0.1/tcp/{port}")
        async with second.run(listen_addrs=[address]):
            shared = bool(second.get_addrs())
            if kind == HARDENED:
                with pytest.raises(PortTaken, match=port):
                    hardening.assert_listening(second, [address])
    assert shared is (kind == STOCK)


async def test_an_address_of_another_machine_is_an_error(patched):
    patched(HARDENED)
    host, _ = make_host(HARDENED)
    address = Multiaddr("/ip4/192.0.2.1/tcp/0")
    async with host.run(listen_addrs=[address]):
        with pytest.raises(PortTaken):
            hardening.assert_listening(host, [address])


async def test_a_free_port_is_no_error(patched):
    patched(HARDENED)
    host, _ = make_host(HARDENED)
    async with host.run(listen_addrs=[ANY_PORT]):
        hardening.assert_listening(host, [ANY_PORT])


async def accepts(port):
    try:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
    except OSError:
        return False
    await stream.aclose()
    return True


@both
async def test_a_crashed_host_leaves_no_listener_behind_unless_stock(kind, patched):
    patched(kind)
    host, _ = make_host(kind)
    try:
        async with host.run(listen_addrs=[ANY_PORT]):
            port = int(host.get_addrs()[0].value_for_protocol("tcp"))
            host.get_network().manager.run_task(crash)
            await trio.sleep_forever()
    except ExceptionGroup:
        if kind == HARDENED:
            await hardening.close_listeners(host)
    left_behind = await accepts(port)
    await hardening.close_listeners(host)
    assert left_behind is (kind == STOCK)


async def crash():
    raise RuntimeError("bug")


async def test_closing_goes_through_while_being_cancelled(patched):
    patched(HARDENED)
    host, _ = make_host(HARDENED)
    async with host.run(listen_addrs=[ANY_PORT]):
        port = int(host.get_addrs()[0].value_for_protocol("tcp"))
        with trio.CancelScope() as scope:
            scope.cancel()
            await hardening.close_listeners(host)
        assert not await accepts(port)


def test_installing_twice_is_installing_once(patched):
    patched(STOCK)
    listeners.install_exclusive_listeners()
    listeners.install_exclusive_listeners()
    assert stock_tcp._open_reuseport_listeners is listeners.open_exclusive
