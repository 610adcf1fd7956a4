"""T8: flow control that is enforced. The attacker writes frames past its own flow control."""

import contextlib
import struct

import trio
from libp2p.custom_types import TProtocol
from libp2p.peer.peerinfo import PeerInfo
from libp2p.stream_muxer.yamux import yamux

from tests.swarm.hardening.kit import HARDENED, LONG_S, STOCK, becomes, both, running

SINK = TProtocol("/test/sink/1")
FRAME_BYTES = 60_000


def frame(kind, flags, stream_id, payload=b""):
    return struct.pack(yamux.YAMUX_HEADER_FORMAT, 0, kind, flags, stream_id, len(payload)) + payload


async def attack(kind, deed, *, closes):
    """Connect to a victim that reads nothing, let `deed(connection, stream)` loose; was it thrown out? And the bytes held."""

    async def handler(stream):
        await trio.sleep_forever()

    async with running(kind) as victim, running(STOCK) as attacker:
        victim.host.set_stream_handler(SINK, handler)
        await attacker.host.connect(PeerInfo(victim.peer_id, victim.host.get_addrs()))
        stream = await attacker.host.new_stream(victim.peer_id, [SINK])
        connection = victim.host.get_network().get_connections(attacker.peer_id)[0].muxed_conn
        with trio.move_on_after(LONG_S):
            with contextlib.suppress(Exception):
                await deed(stream.muxed_conn, stream.muxed_stream)
        thrown_out = await becomes(lambda: connection.is_closed, expected=closes)
        held = sum(map(len, connection.stream_buffers.values()))
        return thrown_out, held, victim


@both
async def test_data_beyond_the_window_closes_the_connection_unless_stock(kind):
    async def deed(connection, stream):
        for _ in range(50):
            await connection._write_frame(frame(yamux.TYPE_DATA, 0, stream.stream_id, b"x" * FRAME_BYTES))

    thrown_out, held, victim = await attack(kind, deed, closes=kind == HARDENED)
    assert thrown_out is (kind == HARDENED)
    assert (held > 2**20) is (kind == STOCK)
    if kind == HARDENED:
        assert victim.counters["yamux_overrun"] == 1


@both
async def test_a_huge_frame_is_not_even_read_unless_stock(kind):
    async def deed(connection, stream):
        await connection._write_frame(frame(yamux.TYPE_DATA, 0, stream.stream_id, b"x" * 2**20))

    thrown_out, _, _ = await attack(kind, deed, closes=kind == HARDENED)
    assert thrown_out is (kind == HARDENED)


@both
async def test_endless_streams_close_the_connection_unless_stock(kind):
    async def deed(connection, stream):
        for number in range(300 if kind == STOCK else 1000):  # a slow attacker may open ten a second
            await connection._write_frame(frame(yamux.TYPE_WINDOW_UPDATE, yamux.FLAG_SYN, 1001 + 2 * number))

    thrown_out, _, _ = await attack(kind, deed, closes=kind == HARDENED)
    assert thrown_out is (kind == HARDENED)


@both
async def test_streams_that_end_at_once_close_the_connection_when_they_come_too_fast_unless_stock(kind):
    async def deed(connection, stream):
        for number in range(1001, 1801 if kind == STOCK else 3001, 2):
            await connection._write_frame(frame(yamux.TYPE_DATA, yamux.FLAG_SYN, number))
            await connection._write_frame(frame(yamux.TYPE_DATA, yamux.FLAG_RST, number))

    thrown_out, _, _ = await attack(kind, deed, closes=kind == HARDENED)
    assert thrown_out is (kind == HARDENED)


async def test_a_full_window_is_no_overrun():
    async def deed(connection, stream):
        with trio.move_on_after(0.5):
            await stream.write(b"x" * 400_000)

    thrown_out, held, _ = await attack(HARDENED, deed, closes=False)
    assert not thrown_out
    assert held > 200_000


@both
async def test_small_reads_are_not_answered_one_by_one_unless_stock(kind):
    done = trio.Event()

    async def handler(stream):
        for _ in range(100):
            await stream.read(1000)
        done.set()

    async with running(kind) as receiver, running(kind) as sender:
        receiver.host.set_stream_handler(SINK, handler)
        await sender.host.connect(PeerInfo(receiver.peer_id, receiver.host.get_addrs()))
        stream = await sender.host.new_stream(receiver.peer_id, [SINK])
        updates = []
        yamux_stream = stream.muxed_stream
        muxed = receiver.host.get_network().get_connections(sender.peer_id)[0].muxed_conn
        write = muxed._write_frame

        async def counted(data):
            if (
                data[1] == yamux.TYPE_WINDOW_UPDATE
                and struct.unpack("!I", data[4:8])[0] == yamux_stream.stream_id
            ):
                updates.append(data)
            await write(data)

        muxed._write_frame = counted
        with trio.fail_after(LONG_S):
            await stream.write(b"x" * 100_000)
            await done.wait()
    assert (len(updates) >= 90) is (kind == STOCK)
    assert (len(updates) <= 1) is (kind == HARDENED)
