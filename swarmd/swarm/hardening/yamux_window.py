"""T8: stock logs a peer that sends beyond its window, and buffers the data (3000 x 65 KB: 188 MB); it answers each read with a
WINDOW_UPDATE; and it accepts any number of streams, as fast as they come. Here each of these is a bound, and overstepping closes
the connection.
"""

import trio
from libp2p.stream_muxer.yamux import yamux as stock

from swarmd.fair.bucket import Bucket

WINDOW_BYTES = stock.DEFAULT_WINDOW_SIZE
# Unread bytes of all streams of a connection: what one connection can make the node hold.
CONNECTION_BYTES_MAX = 4 * 2**20
# Streams a peer may have open towards us; a swarmd peer needs about ten.
INBOUND_STREAMS_MAX = 256
# Streams a second that a peer may open after its first 256. Each costs a negotiation that no budget counts. A swarmd peer opens ten
# in its first second, and then one in some seconds.
INBOUND_STREAM_RATE = 10.0


class Overrun(trio.TooSlowError):  # type: ignore[misc]
    """The peer broke flow control. Stock's reading loop closes the connection on this type of exception only."""


class WindowedStream(stock.YamuxStream):  # type: ignore[misc]
    """A yamux stream whose receive window is a promise, renewed half a window at a time."""

    _pending_recv_release: int

    def __init__(self, stream_id: int, conn: "WindowedConnection", is_initiator: bool) -> None:
        if not is_initiator:
            conn.check_streams()
        super().__init__(stream_id, conn, is_initiator)

    @property
    def recv_window(self) -> int:
        """Bytes the peer may still send; stock's reading loop subtracts what came, then only logs when that is below zero."""
        return self._recv_window

    @recv_window.setter
    def recv_window(self, num: int) -> None:
        if num < 0:
            self.conn.overrun()
        self._recv_window = num

    async def _auto_tune_and_send_window_update(self, *, bytes_read: int = 0) -> None:
        """Give back what was read, in pieces of half a window. No tuning: the window stays 256 KiB."""
        self._pending_recv_release += bytes_read
        if self._pending_recv_release >= WINDOW_BYTES // 2:
            num, self._pending_recv_release = self._pending_recv_release, 0
            self.recv_window += num
            await self.send_window_update(num)


class WindowedConnection(stock.Yamux):  # type: ignore[misc]
    """A yamux connection that holds its peer to the windows it was given; counts `yamux_overrun`."""

    def __init__(self, *args: object, **settings: object) -> None:
        super().__init__(*args, **settings)
        self.openings = Bucket.full(INBOUND_STREAM_RATE, INBOUND_STREAMS_MAX, trio.current_time())

    async def _read_data_body(self, length: int) -> bytes:
        held = sum(map(len, self.stream_buffers.values()))
        if length > WINDOW_BYTES or held + length > CONNECTION_BYTES_MAX:
            self.overrun()
        return bytes(await super()._read_data_body(length))

    def check_streams(self) -> None:
        """Called for each stream the peer opens."""
        if sum(not stream.is_initiator for stream in self.streams.values()) >= INBOUND_STREAMS_MAX:
            self.overrun()
        if not self.openings.take(1, trio.current_time()):
            self.overrun()

    def overrun(self) -> None:
        """Raise, so that the reading loop closes the connection."""
        self.counters.count("yamux_overrun")
        raise Overrun
