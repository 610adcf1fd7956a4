"""The hardened yamux: stock builds its own classes by name wherever it needs one, so a subclass has to be put in those places.

A host gets it by `harden_host`; other hosts of the process keep the stock one. Mplex is not offered: nobody needs it.
"""

import types

import trio
from libp2p.abc import IHost, ISecureConn
from libp2p.custom_types import TProtocol
from libp2p.peer.id import ID
from libp2p.stream_muxer.yamux import yamux as stock

from swarmd.swarm.hardening.counters import Counters
from swarmd.swarm.hardening.yamux_stream_lock import LockedStream
from swarmd.swarm.hardening.yamux_window import WindowedConnection, WindowedStream

# A live peer takes a frame of 12 bytes at once; a frozen one never.
GOODBYE_S_MAX = 1.0


class HardenedStream(LockedStream, WindowedStream):
    """A yamux stream with both fixes."""


def _with_our_streams(function: types.FunctionType) -> types.FunctionType:
    """The same function, in which the name `YamuxStream` means ours (560 lines of reading loop are not worth a copy)."""
    names = {**function.__globals__, "YamuxStream": HardenedStream}
    return types.FunctionType(function.__code__, names, function.__name__, function.__defaults__)


class HardenedYamux(WindowedConnection):
    """A yamux connection with the fixes; made by the muxer that `install_muxer` puts into a host."""

    open_stream = _with_our_streams(stock.Yamux.open_stream)
    handle_incoming = _with_our_streams(stock.Yamux.handle_incoming)

    def __init__(self, *args: object, counters: Counters, **settings: object) -> None:
        self.counters = counters
        super().__init__(*args, **settings)

    async def close(self, error_code: int = stock.GO_AWAY_NORMAL) -> None:
        """Say goodbye and close; stock waits for ever when a frozen peer (T20) holds a writer, and with it the write lock."""
        with trio.move_on_after(GOODBYE_S_MAX) as goodbye:
            await super().close(error_code)
        if goodbye.cancelled_caught:
            await self.secured_conn.close()  # fails the writer
            await super().close(error_code)

    async def _write_frame(self, data: bytes) -> None:
        """Send one frame whole; a frame cut short would make garbage of all that follows, so it ends the connection.

        Stock describes every frame for a debug log that nobody reads: a tenth of the CPU of a small message.
        """
        async with self._write_lock:
            try:
                await self.secured_conn.write(data)
            except BaseException:
                with trio.move_on_after(1, shield=True):
                    await self.secured_conn.close()
                raise


def muxer_options() -> dict[TProtocol, type[HardenedYamux]]:
    """The `muxer_opt` of `new_host`: yamux only."""
    return {stock.PROTOCOL_ID: HardenedYamux}


def install_muxer(host: IHost, counters: Counters) -> None:
    multistream = host.get_network().upgrader.muxer_multistream

    async def new_connection(secured: ISecureConn, peer_id: ID) -> stock.Yamux:
        protocol, _ = await multistream._selector.select(
            secured, secured.is_initiator, multistream.negotiate_timeout
        )
        muxed = HardenedYamux(secured, peer_id, is_initiator=secured.is_initiator, counters=counters)
        return multistream._annotate_connection(muxed, secured, protocol)

    multistream.new_conn = new_connection
