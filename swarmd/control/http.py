"""HTTP/1.1 over a trio stream with h11: small requests, small answers, everything bounded.

A request is a method and a path with a query; a body is read only where the listener allows one, up to its bound. Connections are
kept open until idle for 10 s.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import h11
import trio

IDLE_S = 10.0
HEADERS_BYTES_MAX = 16 * 1024
READ_BYTES = 4096  # the headers of a request are bounded to within one read of this
CONNECTIONS_MAX = 64
# What a listener that takes bodies allows: one message of the protocol (60 KB), with room.
BODY_BYTES_MAX = 64 * 1024


@dataclass(frozen=True)
class Request:
    """What was asked for."""

    method: str
    path: str
    query: Mapping[str, str]
    host: str
    body: bytes = b""


@dataclass(frozen=True)
class Response:
    """An answer. `content_type` is sent with nosniff, so a browser believes it."""

    body: bytes
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


def as_json(value: Any, status: int = 200) -> Response:
    """A JSON answer; NaN is not JSON and raises ValueError."""
    return Response(json.dumps(value, allow_nan=False).encode() + b"\n", status, "application/json")


Handler = Callable[[Request], Awaitable[Response]]
TOO_LARGE = as_json({"error": "the body is too large"}, 413)


async def serve_connection(stream: trio.abc.Stream, handler: Handler, *, body_bytes_max: int = 0) -> None:
    """Answer requests on one connection until it is closed, idle, or breaks the protocol.

    `body_bytes_max`: longest body that is read for the handler; one that is longer is answered with 413 and the connection closed.
    With 0 nobody asked for bodies: they are passed over after the answer.
    """
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEADERS_BYTES_MAX)
    async with stream:
        try:
            while True:
                with trio.fail_after(IDLE_S):
                    event = await _next(connection, stream)
                if not isinstance(event, h11.Request):
                    return
                with trio.fail_after(IDLE_S):
                    body = await _body(connection, stream, body_bytes_max) if body_bytes_max else b""
                response = TOO_LARGE if body is None else await handler(_parse(event, body))
                with trio.fail_after(IDLE_S):
                    await _answer(connection, stream, response)
                    if body is None:
                        return
                    while connection.their_state is h11.SEND_BODY:
                        await _next(connection, stream)  # a body that nobody asked for
                if connection.our_state is h11.MUST_CLOSE:
                    return
                connection.start_next_cycle()
        except (trio.TooSlowError, trio.BrokenResourceError, trio.ClosedResourceError, h11.ProtocolError):
            return


async def _next(connection: h11.Connection, stream: trio.abc.Stream) -> Any:
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await stream.receive_some(READ_BYTES))
    return event


async def _body(connection: h11.Connection, stream: trio.abc.Stream, bytes_max: int) -> bytes | None:
    """The whole body of the request under way; None when it is longer than `bytes_max`."""
    body = b""
    while not isinstance(event := await _next(connection, stream), h11.EndOfMessage):
        body += event.data
        if len(body) > bytes_max:
            return None
    return body


async def _answer(connection: h11.Connection, stream: trio.abc.Stream, response: Response) -> None:
    headers = [
        ("Content-Type", response.content_type),
        ("Content-Length", str(len(response.body))),
        ("X-Content-Type-Options", "nosniff"),
        ("Cache-Control", "no-store"),
    ]
    data = connection.send(h11.Response(status_code=response.status, headers=headers)) or b""
    data += connection.send(h11.Data(response.body)) or b""
    data += connection.send(h11.EndOfMessage()) or b""
    await stream.send_all(data)


def _parse(event: h11.Request, body: bytes) -> Request:
    target = urlsplit(event.target.decode("ascii", "replace"))
    host = next((value for name, value in event.headers if name == b"host"), b"")
    return Request(
        event.method.decode("ascii"),
        target.path,
        dict(parse_qsl(target.query)),
        host.decode("ascii", "replace"),
        body,
    )
