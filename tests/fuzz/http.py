"""Target: a connection to the node's local sockets. The first byte of the input chooses the socket and how the rest is cut."""

import re

import trio

from swarmd.control.gate import gate_of
from swarmd.control.http import BODY_BYTES_MAX, End, Request, Response, Service, as_json, serve_connection
from swarmd.control.server import router
from tests.fuzz.finding import require
from tests.fuzz.meter import METER

# Those that the sockets answer with; 500 is none of them.
STATUSES = frozenset({200, 400, 403, 404, 405, 409, 413, 421, 431, 501, 503})
ANSWERED = frozenset({End.ANSWERED, End.FOREIGN, End.MALFORMED})
GATED = frozenset({421, 403})
CONTINUE = b"HTTP/1.1 100 \r\n\r\n"
_HEAD = re.compile(rb"HTTP/1\.1 ([0-9]{3}) \r\n((?:[A-Za-z-]+: [^\r\n]*\r\n)+)\r\n")


class _Stream(trio.abc.HalfCloseableStream):  # type: ignore[misc]
    """Gives the bytes in pieces of growing size, then the end. Nothing here waits, so no event loop is needed."""

    def __init__(self, data: bytes, piece: int) -> None:
        self._data, self._place, self._piece = data, 0, piece
        self.said = bytearray()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        start, self._piece = self._place, self._piece * 7
        self._place += min(max_bytes or self._piece, self._piece)
        return self._data[start : self._place]

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self.said += data

    async def send_eof(self) -> None:
        """Nothing to do."""

    async def wait_send_all_might_not_block(self) -> None:
        """Nothing to do."""

    async def aclose(self) -> None:
        """Nothing to do."""


async def _echo(request: Request) -> Response:
    return as_json({"path": request.path, "query": dict(request.query), "size": len(request.body)})


_ROUTER = router({("GET", "/metrics"): _echo, ("POST", "/v1/publish"): _echo})
SERVICES = (Service(_ROUTER, gate=gate_of(frozenset())), Service(_ROUTER, body_bytes_max=BODY_BYTES_MAX))


def check(data: bytes) -> None:
    """Serve one connection.

    Raises:
        Finding: a promise is broken.
        Exception: whatever left the connection; nothing does.
    """
    kind, sent = data[0] if data else 0, data[1:]
    end, said = METER.timed(lambda: _served(sent, SERVICES[kind & 1], 1 + (kind >> 1)))
    check_answer(said, end, is_gated=not kind & 1)


def _served(data: bytes, service: Service, piece: int) -> tuple[End, bytes]:
    stream = _Stream(data, piece)
    try:
        serve_connection(stream, service).send(None)
    except StopIteration as done:
        return done.value, bytes(stream.said)
    raise AssertionError("the connection never waits")


def check_answer(said: bytes, end: End, *, is_gated: bool) -> int:
    """The status of a connection's answer, 0 where none was due.

    Raises:
        Finding: it is no answer, or not one to this end.
    """
    if end not in ANSWERED:
        require(end is End.GONE, f"the connection ended {end}")
        return 0
    said = said.removeprefix(CONTINUE)
    head = _HEAD.match(said)
    require(head is not None, f"no answer: {said!r:.200}")
    assert head is not None
    status, fields, body = int(head[1]), fields_of(head[2]), said[head.end() :]
    require(status in STATUSES, f"status {status}")
    require(fields[b"connection"] == b"close", "the connection is said to stay open")
    require(
        len(body) in (0, int(fields[b"content-length"])),
        f"{len(body)} bytes of {fields[b'content-length']!r}",
    )
    require((status in GATED) == (end is End.FOREIGN), f"status {status} for {end}")
    require(is_gated or end is not End.FOREIGN, "a socket without a gate turned a client away")
    return status


def fields_of(lines: bytes) -> dict[bytes, bytes]:
    """Header fields by their name in lower case."""
    pairs = (line.split(b": ", 1) for line in lines.split(b"\r\n") if line)
    return {name.lower(): value for name, value in pairs}
