"""T1: two writers on one stream, slow windows, and messages cut short."""

import pytest
import trio
from libp2p.custom_types import TProtocol
from libp2p.network.stream.exceptions import StreamError
from libp2p.peer.peerinfo import PeerInfo
from libp2p.stream_muxer.exceptions import MuxedStreamError
from libp2p.stream_muxer.yamux.yamux import YamuxStream

from swarmd.swarm.hardening.yamux_stream_lock import LockedStream
from tests.swarm.hardening.kit import HARDENED, LONG_S, STOCK, both, running

BULK = TProtocol("/test/bulk/1")
MESSAGE_BYTES = 200_000


async def read_all(stream, num_bytes):
    data = bytearray()
    while len(data) < num_bytes:
        data += await stream.read(2**18)
    return bytes(data)


@both
async def test_two_writers_do_not_interleave_unless_stock(kind):
    arrived, done = [], trio.Event()

    async def handler(stream):
        arrived.append(await read_all(stream, 2 * MESSAGE_BYTES))
        done.set()

    async with running(kind) as sender, running(kind) as receiver:
        receiver.host.set_stream_handler(BULK, handler)
        await sender.host.connect(PeerInfo(receiver.peer_id, receiver.host.get_addrs()))
        stream = await sender.host.new_stream(receiver.peer_id, [BULK])
        with trio.fail_after(LONG_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stream.write, b"a" * MESSAGE_BYTES)
                nursery.start_soon(stream.write, b"b" * MESSAGE_BYTES)
            await done.wait()
    whole = arrived[0] in (
        b"a" * MESSAGE_BYTES + b"b" * MESSAGE_BYTES,
        b"b" * MESSAGE_BYTES + b"a" * MESSAGE_BYTES,
    )
    assert whole is (kind == HARDENED)


@both
async def test_a_message_cut_short_ends_the_stream_unless_stock(kind):
    """The writer is cancelled while the window is shut; what it writes next would be read as the rest of the first message."""
    hold = trio.Event()

    async def handler(stream):
        await hold.wait()

    async with running(kind) as sender, running(kind) as receiver:
        receiver.host.set_stream_handler(BULK, handler)
        await sender.host.connect(PeerInfo(receiver.peer_id, receiver.host.get_addrs()))
        stream = await sender.host.new_stream(receiver.peer_id, [BULK])
        with trio.move_on_after(0.3):
            await stream.write(b"a" * 400_000)
        stream.muxed_stream.send_window += 1000
        refused = False
        try:
            await stream.write(b"next message")
        except StreamError:
            refused = True
        hold.set()
    assert refused is (kind == HARDENED)


class FakeConnection:
    """Swallows frames; a stream needs nothing else to write."""

    def __init__(self):
        self.num_frames = 0

    async def _write_frame(self, data):
        self.num_frames += 1

    async def _finalize_stream(self, stream, *, fully_closed):
        pass


@pytest.mark.parametrize("stream_class", [YamuxStream, LockedStream], ids=[STOCK, HARDENED])
async def test_a_writer_waits_half_a_minute_for_its_window_unless_stock(stream_class, autojump_clock):
    stream = stream_class(1, FakeConnection(), True)
    finished = False
    async with trio.open_nursery() as nursery:

        async def open_window():
            await trio.sleep(30)
            stream.send_window += 2**18

        nursery.start_soon(open_window)
        try:
            await stream.write(b"x" * 300_000)
            finished = True
        except MuxedStreamError:
            nursery.cancel_scope.cancel()
    assert finished is (stream_class is LockedStream)


async def test_a_writer_gives_up_on_a_window_that_never_opens(autojump_clock):
    with pytest.raises(MuxedStreamError):
        await LockedStream(1, FakeConnection(), True).write(b"x" * 300_000)


async def test_a_waiting_writer_notices_the_end_of_the_stream(autojump_clock):
    stream = LockedStream(1, FakeConnection(), True)
    async with trio.open_nursery() as nursery:

        async def end():
            await trio.sleep(1)
            stream.closed = True

        nursery.start_soon(end)
        with pytest.raises(MuxedStreamError):
            await stream.write(b"x" * 300_000)
    assert trio.current_time() < 1000


async def test_nothing_can_be_written_after_the_end():
    stream = LockedStream(1, FakeConnection(), True)
    stream.send_closed = True
    with pytest.raises(MuxedStreamError):
        await stream.write(b"x")
