"""Addresses in the peer store come from strangers: nothing dials them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.exceptions import BaseLibp2pError
from libp2p.network.swarm import Swarm
from libp2p.peer.id import ID
from multiaddr import Multiaddr

from swarmd.swarm import hardening
from tests.swarm.hardening.kit import HARDENED, both, running

STRANGER = ID.from_pubkey(create_new_key_pair(bytes(32)).public_key)


async def want_a_stream(network: Swarm) -> None:
    await network.new_stream(STRANGER)


async def replace_a_connection(network: Swarm) -> None:
    await network.dial_peer_replacement(STRANGER)


@asynccontextmanager
async def third_party() -> AsyncIterator[tuple[Multiaddr, list[Any]]]:
    """A listener, and who called it."""
    called: list[Any] = []

    async def hang_up(stream: trio.SocketStream) -> None:
        called.append(stream.socket.getpeername())
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, hang_up, [listener])
        yield Multiaddr(f"/ip4/127.0.0.1/tcp/{listener.socket.getsockname()[1]}"), called
        nursery.cancel_scope.cancel()


@both
@pytest.mark.parametrize("deed", [want_a_stream, replace_a_connection])
async def test_an_address_of_the_peer_store_is_dialled_by_stock_alone(
    kind: str, deed: Callable[[Swarm], Awaitable[None]]
) -> None:
    # given a peer store that a stranger's identify filled with the address of a third party
    async with running(kind) as node, third_party() as (address, called):
        network = node.host.get_network()
        node.host.get_peerstore().add_addrs(STRANGER, [address], 7200)
        if kind == HARDENED:
            hardening.dial_named_addresses_only(node.host)
        # when
        with (
            trio.move_on_after(5),
            pytest.raises(BaseLibp2pError) if deed is want_a_stream else trio.CancelScope(),
        ):
            await deed(network)
        # then
        assert bool(called) is (kind != HARDENED)
