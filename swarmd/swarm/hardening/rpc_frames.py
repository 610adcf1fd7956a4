"""Length-prefixed frames cut from a byte stream: pure, no I/O. Stock reads the length byte by byte, one task switch and one
WINDOW_UPDATE each; here one read of up to 256 KiB yields all the frames it holds.
"""

from collections.abc import Iterator

# A length below 2**28 fits four bytes; more than five is an attempt to make us wait.
PREFIX_BYTES_MAX = 5


class Misframed(Exception):
    """The peer sent a length or a body that cannot be an RPC of ours; the stream cannot be read any further."""


class FrameBuffer:
    """Feed it bytes, take out frames; holds at most one frame and one chunk."""

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Add received bytes and yield every complete frame.

        Raises:
            Misframed: a length prefix is overlong or above the limit.
        """
        self._buffer += chunk
        while True:
            prefix = self._prefix()
            if prefix is None:
                return
            num_prefix, num_body = prefix
            if len(self._buffer) < num_prefix + num_body:
                return
            frame = bytes(memoryview(self._buffer)[num_prefix : num_prefix + num_body])
            del self._buffer[: num_prefix + num_body]
            yield frame

    def _prefix(self) -> tuple[int, int] | None:
        """Size of the next frame's prefix and body, or None while the prefix is incomplete."""
        length = 0
        for index, byte in enumerate(self._buffer[:PREFIX_BYTES_MAX]):
            length |= (byte & 0x7F) << (7 * index)
            if length > self._frame_bytes_max:
                raise Misframed(f"{length} bytes announced, {self._frame_bytes_max} allowed")
            if not byte & 0x80:
                return index + 1, length
        if len(self._buffer) >= PREFIX_BYTES_MAX:
            raise Misframed("overlong length prefix")
        return None
