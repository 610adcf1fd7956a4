"""HTTP/1.1 over a trio stream with h11: one request a connection, one answer, everything bounded.

The order is the order of trust. The head is read, the gate judges it, and only then is the target looked at, the body read and the
handler called. Each answer says `Connection: close`: nobody here asks often enough to keep a connection open, and a connection
that has one request has one deadline, which the listener sets (`places`).
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import h11
import trio

from swarmd.control.target import BadTarget, parse_target

# A browser sends the cookies of every port of `localhost`.
HEADERS_BYTES_MAX = 16 * 1024
READ_BYTES = 4096  # the headers of a request are bounded to within one read of this
# What a listener that takes bodies allows: one message of the protocol (60 KB), with room.
BODY_BYTES_MAX = 64 * 1024
# Bytes that a client may still send while it reads an answer that came before its request was whole.
LINGER_BYTES_MAX = 1024 * 1024


class End(StrEnum):
    """How a connection ended. `swarmd.metrics.labels.CONTROL_ENDS` has them too."""

    ANSWERED = "answered"  # whatever the status
    FOREIGN = "foreign"  # answered, but not let past the gate
    MALFORMED = "malformed"  # answered that it is no request
    GONE = "gone"  # the client left before its answer
    LATE = "late"  # the deadline passed
    EVICTED = "evicted"  # it had waited longest when another needed its place
    CROWDED = "crowded"  # closed unread: nobody could be made to leave for it
    UNACCEPTED = "unaccepted"  # the system could not give us a descriptor for it
    FAILED = "failed"  # an exception of ours


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True)
class Response:
    """An answer. `content_type` is sent with nosniff, so a browser believes it."""

    body: bytes
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


def as_json(value: object, status: int = 200) -> Response:
    """A JSON answer; NaN is not JSON and raises ValueError."""
    return Response(json.dumps(value, allow_nan=False).encode() + b"\n", status, "application/json")


Handler = Callable[[Request], Awaitable[Response]]
# Judges a request by its header fields alone (names in lower case); None lets it in.
Gate = Callable[[Iterable[tuple[bytes, bytes]]], Response | None]


@dataclass(frozen=True)
class Service:
    """What a listener serves, to whom, and how much of it. With `body_bytes_max` 0 a request that has a body is refused."""

    handler: Handler
    gate: Gate = lambda headers: None
    body_bytes_max: int = 0


TOO_LARGE = as_json({"error": "the body is too large"}, 413)
INTERNAL = as_json({"error": "internal error; see the node's log"}, 500)
# By h11's hint; it has no other for what a client sends.
MALFORMED = {
    400: as_json({"error": "this is no HTTP/1.1 request"}, 400),
    431: as_json({"error": f"the head is longer than {HEADERS_BYTES_MAX} bytes"}, 431),
    501: as_json({"error": "only chunked bodies can be read"}, 501),
}


async def serve_connection(
    stream: trio.abc.HalfCloseableStream,
    service: Service,
    in_hand: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> End:
    """Answer the one request of a connection and close it.

    Args:
        in_hand: entered while the handler works: the client is not what is waited for then.

    Raises:
        Exception: what the handler raised, after the client was told that something did.
    """
    async with stream:
        exchange = _Exchange(stream)
        try:
            asked = await exchange.receive(service)
            if asked is None:
                return End.GONE
            if isinstance(asked, _Refusal):
                await exchange.send(asked.response)
                return asked.end
        except _CLIENT_GONE:
            return End.GONE
        try:
            with in_hand():
                response = await service.handler(asked)
        except Exception:
            with suppress(*_CLIENT_GONE):
                await exchange.send(INTERNAL)
            raise
        try:
            await exchange.send(response)
        except _CLIENT_GONE:
            return End.GONE
    return End.ANSWERED


_CLIENT_GONE = (trio.BrokenResourceError, trio.ClosedResourceError)


@dataclass(frozen=True)
class _Refusal:
    end: End
    response: Response


class _Exchange:
    """One request and its answer."""

    def __init__(self, stream: trio.abc.HalfCloseableStream) -> None:
        self._stream = stream
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEADERS_BYTES_MAX)
        self._head_only = False

    async def receive(self, service: Service) -> Request | _Refusal | None:
        """The request; or how it is refused; or None from a client that came and went."""
        try:
            head = await self._next()
            if not isinstance(head, h11.Request):
                return None
            self._head_only = head.method == b"HEAD"
            if foreign := service.gate(head.headers):
                return _Refusal(End.FOREIGN, foreign)
            target = parse_target(head.target)
            body = await self._body(head, service.body_bytes_max)
        except BadTarget as error:
            return _Refusal(End.MALFORMED, as_json({"error": str(error)}, 400))
        except h11.RemoteProtocolError as error:
            return _Refusal(End.MALFORMED, MALFORMED.get(error.error_status_hint, MALFORMED[400]))
        if body is None:
            return _Refusal(End.ANSWERED, TOO_LARGE)
        return Request(head.method.decode("ascii"), target.path, target.query, body)

    async def send(self, response: Response) -> None:
        """The whole answer. A client that may still be sending gets time to read it: closing at once would take it back."""
        headers = [
            ("Content-Type", response.content_type),
            ("Content-Length", str(len(response.body))),
            ("Connection", "close"),
            ("X-Content-Type-Options", "nosniff"),
            ("Cache-Control", "no-store"),
        ]
        data = self._connection.send(h11.Response(status_code=response.status, headers=headers)) or b""
        if not self._head_only:
            data += self._connection.send(h11.Data(response.body)) or b""
        data += self._connection.send(h11.EndOfMessage()) or b""
        await self._stream.send_all(data)
        if self._connection.their_state is not h11.MUST_CLOSE:
            with suppress(*_CLIENT_GONE):
                await self._linger()

    async def _linger(self) -> None:
        """Pass over what is still coming, until the client closes or has sent too much."""
        await self._stream.send_eof()
        for _ in range(LINGER_BYTES_MAX // READ_BYTES):
            if not await self._stream.receive_some(READ_BYTES):
                return

    async def _body(self, head: h11.Request, bytes_max: int) -> bytes | None:
        """The whole body; None when it is longer than `bytes_max`, unread when that is said in the head."""
        declared = dict(head.headers).get(b"content-length", b"0")
        if int(declared) > bytes_max:
            return None
        if self._connection.they_are_waiting_for_100_continue:
            go_on = h11.InformationalResponse(status_code=100, headers=[])
            await self._stream.send_all(self._connection.send(go_on) or b"")
        body = bytearray()
        while not isinstance(event := await self._next(), h11.EndOfMessage):
            body += event.data
            if len(body) > bytes_max:
                return None
        return bytes(body)

    async def _next(self) -> Any:
        while (event := self._connection.next_event()) is h11.NEED_DATA:
            self._connection.receive_data(await self._stream.receive_some(READ_BYTES))
        return event
