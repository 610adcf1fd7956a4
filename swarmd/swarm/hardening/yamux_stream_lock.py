"""T1: a yamux stream splits a write into frames of 64 KiB without a lock, so two writers interleave and corrupt the stream: honest
peers kill each other as soon as a message is larger. Also a writer gives up, in the middle of a message, when its window stays shut
for 5 s; home uplinks need longer. A message that was cut short ends its stream: nothing may follow half a message.
"""

import struct

import trio
from libp2p.stream_muxer.exceptions import MuxedStreamError
from libp2p.stream_muxer.yamux import yamux as stock

FRAME_BYTES_MAX = stock.MAX_MESSAGE_SIZE - stock.HEADER_SIZE
# Seconds for a window to open. 256 KiB take 20 s at 100 kbit/s.
WINDOW_S_MAX = 60.0
# The window opens by an event, but a stream also ends by plain flags nobody announces: look at them this often.
LOOK_S = 0.25


class LockedStream(stock.YamuxStream):  # type: ignore[misc]
    """A yamux stream on which one write is one piece."""

    def __init__(self, stream_id: int, conn: stock.Yamux, is_initiator: bool) -> None:
        self._message_lock = trio.Lock()
        self._window_opened = trio.Event()
        super().__init__(stream_id, conn, is_initiator)

    @property
    def send_window(self) -> int:
        """Bytes the other side will take; stock sets this plain attribute from its reading loop."""
        return self._send_window

    @send_window.setter
    def send_window(self, num: int) -> None:
        self._send_window = num
        if num > 0:
            self._window_opened.set()
            self._window_opened = trio.Event()

    async def write(self, data: bytes) -> None:
        """Send all of it, in order, with nothing of another writer in between.

        Raises:
            MuxedStreamError: the stream is closed, or its window did not open for 60 s.
        """
        async with self._message_lock:
            num_sent = 0
            try:
                while num_sent < len(data):
                    num = min(await self._open_window(), FRAME_BYTES_MAX, len(data) - num_sent)
                    self._send_window -= num
                    header = struct.pack(
                        stock.YAMUX_HEADER_FORMAT, 0, stock.TYPE_DATA, 0, self.stream_id, num
                    )
                    await self.conn._write_frame(header + data[num_sent : num_sent + num])
                    num_sent += num
            except BaseException:
                if 0 < num_sent < len(data):
                    self.send_closed = True
                    with trio.move_on_after(1, shield=True):
                        await self.reset()
                raise

    async def _open_window(self) -> int:
        """Wait for a window above zero and return it."""
        with trio.move_on_after(WINDOW_S_MAX):
            while True:
                if self.send_closed or self.closed:
                    raise MuxedStreamError("Stream is closed")
                if self._send_window > 0:
                    return self._send_window
                opened = self._window_opened
                with trio.move_on_after(LOOK_S):
                    await opened.wait()
        raise MuxedStreamError(f"No window update within {WINDOW_S_MAX:.0f} seconds")
