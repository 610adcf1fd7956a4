"""The two listeners: a Unix socket for the operator's commands, a loopback TCP port for Prometheus and probes.

Only the Unix socket, which the file system guards (0600), can change anything. The TCP side answers three paths, and no web page
(`gate`). Each listener has places of its own, so that a crowd on the port leaves the operator's socket alone, and no connection
ends more than itself.
"""

import logging
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from swarmd.control.http import End, Handler, Request, Response, Service, as_json, serve_connection
from swarmd.control.places import Place, Places
from swarmd.errors import PortTaken
from swarmd.files.owned import make_own

# Connections of one listener. Two listeners leave half of the 256 descriptors that macOS gives.
CONNECTIONS_MAX = 64
# From the first byte of a connection to its last, without the time that the handler takes: Prometheus gives a scrape ten seconds.
PATIENCE_S = 10.0
# Pause after an accept that failed. Linux fails it for want of a descriptor also when nobody waits; ten tries a second cost
# nothing.
ACCEPT_PAUSE_S = 0.1

log = logging.getLogger(__name__)
Routes = dict[tuple[str, str], Callable[[Request], Awaitable[Response]]]
Count = Callable[[End], None]


def router(routes: Routes) -> Handler:
    """A handler that looks (method, path) up; HEAD is a GET whose body is not sent."""
    paths = frozenset(path for _, path in routes)

    async def handle(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        route = routes.get((method, request.path))
        if route is None and request.path in paths:
            return as_json({"error": "method not allowed"}, 405)
        if route is None:
            return as_json({"error": "no such path"}, 404)
        return await route(request)

    return handle


async def open_unix(path: Path) -> trio.SocketListener:
    """Listen on `path` with mode 0600, replacing what a crashed instance left. The caller holds the directory's lock."""
    make_own(path.parent)
    path.unlink(missing_ok=True)  # noqa: ASYNC240 - a local directory, once
    sock = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    umask = os.umask(0o177)
    try:
        await sock.bind(str(path))
    finally:
        os.umask(umask)
    sock.listen(16)
    return trio.SocketListener(sock)


async def open_tcp(host: str, port: int, *, explicit: bool) -> tuple[trio.SocketListener, int]:
    """Listen on a TCP port and say which. A taken default port gives way to a free one; one asked for raises PortTaken."""
    try:
        listeners = await trio.open_tcp_listeners(port, host=host)
    except OSError as error:
        if explicit:
            raise PortTaken(
                f"cannot listen on {host}:{port} for metrics",
                str(error),
                "choose another with --metrics-port, or 0 for any",
            ) from None
        listeners = await trio.open_tcp_listeners(0, host=host)
    for other in listeners[1:]:
        await other.aclose()
    return listeners[0], int(listeners[0].socket.getsockname()[1])


async def serve(
    listener: trio.abc.Listener[trio.abc.HalfCloseableStream],
    service: Service,
    count: Count,
    connections_max: int = CONNECTIONS_MAX,
) -> None:
    """Serve connections until cancelled, `connections_max` at a time; `count` is told how each ended.

    After an accept that fails, for want of descriptors most likely, there is a pause. Who has asked for something is answered in
    it; whoever is still silent then leaves.
    """
    places, kinds_told = Places(connections_max, PATIENCE_S), set[type[Exception]]()

    async def connection(stream: trio.abc.HalfCloseableStream, place: Place | None) -> None:
        try:
            end = await _within(place, stream, service)
        except Exception as error:  # no connection may end more than itself
            end = End.FAILED
            if type(error) not in kinds_told:  # a stranger decides how often
                kinds_told.add(type(error))
                log.exception("a connection failed; further %s are only counted", type(error).__name__)
        finally:
            if place is not None:
                places.leave(place)
        count(end)

    async with listener, trio.open_nursery() as nursery:
        while True:
            try:
                stream = await listener.accept()
            except OSError:
                count(End.UNACCEPTED)
                await trio.sleep(ACCEPT_PAUSE_S)
                places.clear()
            else:
                nursery.start_soon(connection, stream, places.take())


async def _within(place: Place | None, stream: trio.abc.HalfCloseableStream, service: Service) -> End:
    """How a connection ended in its place; one without a place is closed unread."""
    if place is None:
        await trio.aclose_forcefully(stream)
        return End.CROWDED
    with place.scope:
        return await serve_connection(stream, service, place.in_hand)
    return End.EVICTED if place.is_evicted else End.LATE
