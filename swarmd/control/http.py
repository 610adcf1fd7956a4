"""HTTP/1.1 over a trio stream with h11: small requests, small answers, everything bounded.

A request is a method and a path with a query; bodies are not read. Connections are kept open until idle for 10 s.
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


@dataclass(frozen=True)
class Request:
    """What was asked for."""

    method: str
    path: str
    query: Mapping[str, str]
    host: str


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


async def serve_connection(stream: trio.abc.Stream, handler: Handler) -> None:
    """Answer requests on one connection until it is closed, idle, or breaks the protocol."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEADERS_BYTES_MAX)
    async with stream:
        try:
            while True:
                with trio.fail_after(IDLE_S):
                    event = await _next(connection, stream)
                if not isinstance(event, h11.Request):
                    return
                response = await handler(_parse(event))
                with trio.fail_after(IDLE_S):
                    await _answer(connection, stream, response)
                    while not isinstance(await _next(connection, stream), h11.EndOfMessage):
                        continue  # a body that nobody asked for
                if connection.our_state is h11.MUST_CLOSE:
                    return
                connection.start_next_cycle()
        except (trio.TooSlowError, trio.BrokenResourceError, trio.ClosedResourceError, h11.ProtocolError):
            return


async def _next(connection: h11.Connection, stream: trio.abc.Stream) -> Any:
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await stream.receive_some(READ_BYTES))
    return event


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


def _parse(event: h11.Request) -> Request:
    target = urlsplit(event.target.decode("ascii", "replace"))
    host = next((value for name, value in event.headers if name == b"host"), b"")
    return Request(
        event.method.decode("ascii"),
        target.path,
        dict(parse_qsl(target.query)),
        host.decode("ascii", "replace"),
    )
