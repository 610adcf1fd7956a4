"""Length-prefixed msgpack frames: bytes in, messages out, no socket here.

A frame is a 4-byte big-endian length and that many bytes of msgpack. Both ends are ours, on one machine, over an inherited
socketpair; the bound exists so that a bug costs a child process and not the machine's memory.
"""

import struct
from typing import Generic, NamedTuple, TypeVar

import msgpack

from swarmd.errors import Failure, LocalError
from swarmd.processes.values import plain, typed

# The largest message is one round's training set: 64 rollouts of 16 completions of 16 KiB is 16 MiB. At half, the largest
# configurable round would fail; at double, a corrupt length would cost 128 MiB before it is noticed.
FRAME_BYTES_MAX = 64 * 2**20
_PREFIX = struct.Struct(">I")

# The operation that every started child answers at once, whatever it is working at.
PING = "ping"

T = TypeVar("T")


class Request(NamedTuple):
    """An operation that the parent asks for. The first is `start`, whose arguments make the service."""

    id: int
    op: str
    args: dict[str, object]


class Told(NamedTuple):
    """A child tells the result or the error `of` the request of this number, or an event `of` this type with its fields."""

    of: int | str
    value: object
    error: Failure | None = None


class Dropped(NamedTuple):
    """The event that stands for events which a slow parent missed."""

    num: int


def encode_frame(message: object) -> bytes:
    """One message as the bytes of a frame. Raises LocalError above `FRAME_BYTES_MAX`."""
    payload: bytes = msgpack.packb(message, use_bin_type=True, default=plain)
    if len(payload) > FRAME_BYTES_MAX:
        raise LocalError(
            f"a message of {len(payload)} bytes is too large for a child process (limit {FRAME_BYTES_MAX})"
        )
    return _PREFIX.pack(len(payload)) + payload


class FrameReader(Generic[T]):
    """Collects bytes and yields whole messages, each a `kind`."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[T]:
        """All messages completed by `data`.

        Raises:
            LocalError: a length is out of bounds.
            ValueError: a message is no `kind`.
        """
        self._buffer += data
        messages = []
        while len(self._buffer) >= _PREFIX.size:
            (length,) = _PREFIX.unpack_from(self._buffer)
            if length > FRAME_BYTES_MAX:
                raise LocalError(f"a child process announced a frame of {length} bytes")
            end = _PREFIX.size + length
            if len(self._buffer) < end:
                break
            payload = bytes(memoryview(self._buffer)[_PREFIX.size : end])
            del self._buffer[:end]
            messages.append(typed(self._kind, msgpack.unpackb(payload, raw=False, strict_map_key=False)))
        return messages
