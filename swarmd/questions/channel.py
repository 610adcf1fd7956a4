"""Length-prefixed JSON messages over a local stream socket, with a descriptor beside a message where needed, and a deadline.

Both ends are ours. What a scoring worker sends back does not come this way: it is raw numbers of a known length (`worker.py`).
"""

import json
import os
import socket
import struct
import time
from typing import Any

_PREFIX = struct.Struct(">I")
# A call with 64 rollouts of 16 completions of 16 KiB is 16 MiB, at most six times that as escaped JSON.
MESSAGE_BYTES_MAX = 128 << 20


class Channel:
    """One end of a socketpair. `ends` arguments are `time.monotonic()` values; None waits for ever.

    `send` and `receive` raise EOFError when the other end is gone, TimeoutError at `ends`.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def fileno(self) -> int:
        return self._sock.fileno()

    def close(self) -> None:
        self._sock.close()

    def send(self, message: object, fd: int | None = None, ends: float | None = None) -> None:
        """Send one message, and a copy of `fd` with it."""
        payload = json.dumps(message).encode()
        prefix = _PREFIX.pack(len(payload))
        try:
            self._limit(ends)
            if fd is not None:
                socket.send_fds(self._sock, [prefix], [fd])
                prefix = b""
            self._sock.sendall(prefix + payload)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise EOFError from error

    def receive(self, ends: float | None = None) -> tuple[Any, int | None]:
        """One message, and the descriptor that came with it.

        Raises:
            ValueError: a length above `MESSAGE_BYTES_MAX`, or no JSON.
        """
        try:
            self._limit(ends)
            prefix, fds, _, _ = socket.recv_fds(self._sock, _PREFIX.size, 1)
            if not prefix:
                raise EOFError
            (size,) = _PREFIX.unpack(prefix + self._read(_PREFIX.size - len(prefix), ends))
            if size > MESSAGE_BYTES_MAX:
                raise ValueError(f"a message of {size} bytes (limit {MESSAGE_BYTES_MAX})")
            return json.loads(self._read(size, ends)), (fds[0] if fds else None)
        except ConnectionResetError as error:
            raise EOFError from error

    def read_some(self, num_bytes: int, ends: float | None) -> bytes:
        """At least one and at most `num_bytes` raw bytes."""
        try:
            self._limit(ends)
            data = self._sock.recv(num_bytes)
        except ConnectionResetError as error:
            raise EOFError from error
        if not data:
            raise EOFError
        return data

    def _read(self, num_bytes: int, ends: float | None) -> bytes:
        parts = []
        while num_bytes:
            parts.append(self.read_some(min(num_bytes, 1 << 20), ends))
            num_bytes -= len(parts[-1])
        return b"".join(parts)

    def _limit(self, ends: float | None) -> None:
        if ends is None:
            self._sock.settimeout(None)
            return
        left = ends - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)


def read_exactly(fd: int, num_bytes: int) -> bytes:
    """Read from a descriptor with nothing but `read(2)`, which is what a worker may still call; EOFError at its end."""
    parts = []
    while num_bytes:
        part = os.read(fd, min(num_bytes, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        num_bytes -= len(part)
    return b"".join(parts)


def read_message(fd: int) -> Any:
    """One message, with nothing but `read(2)`."""
    (size,) = _PREFIX.unpack(read_exactly(fd, _PREFIX.size))
    if size > MESSAGE_BYTES_MAX:
        raise ValueError(f"a message of {size} bytes (limit {MESSAGE_BYTES_MAX})")
    return json.loads(read_exactly(fd, size))


def write_all(fd: int, data: bytes) -> None:
    """Write to a descriptor with nothing but `write(2)`."""
    while data:
        data = data[os.write(fd, data) :]
