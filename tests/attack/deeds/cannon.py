"""Peers that name one third party to every node that asks them whom they know."""

from contextlib import suppress
from typing import Any

import trio

from swarmd.protocol.signing import Identity
from swarmd.swarm import exchange
from tests.attack.ring import FRESH_MAX, Ring

# A node asks a new neighbour within a second, an old one ever more rarely.
STAY_S = 3.0
LIARS = 3


async def cannon(ring: Ring) -> None:
    """Three liars at a time, under new names every few seconds; each answer names 32 new peers at the third party's port."""
    async with trio.open_nursery() as nursery:
        port = await nursery.start(_third_party, ring)
        nursery.start_soon(_lie_in_turns, ring, port)


async def _third_party(ring: Ring, *, task_status: trio.TaskStatus[int]) -> None:
    """Listens, counts who comes, and hangs up: a caller that had to wait would call less often."""

    async def called(stream: trio.SocketStream) -> None:
        ring.counted["calls"] += 1

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    task_status.started(listener.socket.getsockname()[1])
    await trio.serve_listeners(called, [listener])


async def _lie_in_turns(ring: Ring, port: int) -> None:
    async def lie(stream: Any) -> None:
        with suppress(Exception):  # whatever the library says of a victim that hung up
            await exchange.read_question(stream)
            names = [
                Identity.from_seed(ring.rng.randbytes(32)).peer_id for _ in range(exchange.ADDRESSES_MAX)
            ]
            await exchange.answer(stream, [f"/ip4/127.0.0.1/tcp/{port}/p2p/{name}" for name in names])
            ring.counted["sent"] += 1

    number = 0
    while True:
        async with trio.open_nursery() as nursery:
            for _ in range(LIARS):
                nursery.start_soon(_be_asked, ring, number % FRESH_MAX, lie)
                number += 1


async def _be_asked(ring: Ring, number: int, lie: Any) -> None:
    async with ring.peer(number, listens=False) as peer:
        peer.stack.host.set_stream_handler(exchange.PROTOCOL, lie)
        await trio.sleep(STAY_S)
