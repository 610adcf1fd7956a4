"""T20: the connection to a peer that froze; and frames cut short."""

import pytest
import trio
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.peer.id import ID
from libp2p.stream_muxer.yamux.yamux import Yamux

from swarmd.swarm.hardening import HOST_COUNTERS
from swarmd.swarm.hardening.counters import Counters
from swarmd.swarm.hardening.muxer import HardenedYamux
from tests.swarm.hardening.kit import HARDENED, both


class FrozenPeer:
    """A secured connection whose other end takes nothing any more."""

    is_initiator = True

    def __init__(self):
        self.closed = trio.Event()

    async def write(self, data):
        await self.closed.wait()
        raise OSError("closed")

    async def close(self):
        self.closed.set()


def connection(kind):
    settings = {"counters": Counters(HOST_COUNTERS)} if kind == HARDENED else {}
    peer = ID.from_pubkey(create_new_key_pair().public_key)
    return (HardenedYamux if kind == HARDENED else Yamux)(FrozenPeer(), peer, is_initiator=True, **settings)


@both
async def test_closing_does_not_wait_for_a_frozen_peer_unless_stock(kind, autojump_clock):
    muxed = connection(kind)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(write_until_closed, muxed)
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(900):
            await muxed.close()
        ended = muxed.is_closed
        nursery.cancel_scope.cancel()
    assert ended is (kind == HARDENED)


async def write_until_closed(muxed):
    with pytest.raises((OSError, trio.Cancelled)):
        await muxed._write_frame(bytes(12))


@both
async def test_a_frame_cut_short_ends_the_connection_unless_stock(kind, autojump_clock):
    """What follows half a frame would be read as its rest, by every stream of the connection."""
    muxed = connection(kind)
    with trio.move_on_after(1):
        await muxed._write_frame(bytes(12))
    assert muxed.secured_conn.closed.is_set() is (kind == HARDENED)
