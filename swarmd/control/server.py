"""The two listeners: a Unix socket for the operator's commands, a loopback TCP port for Prometheus and probes.

Only the Unix socket, which the file system guards (0600), can change anything. The TCP side answers three paths and, against DNS
rebinding, only to a `Host` that is a number, `localhost`, or the configured address.
"""

import logging
import os
import re
import socket
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from pathlib import Path

import trio

from swarmd.control.http import CONNECTIONS_MAX, Handler, Request, Response, as_json, serve_connection
from swarmd.errors import PortTaken
from swarmd.owned import make_own

log = logging.getLogger(__name__)
Routes = dict[tuple[str, str], Callable[[Request], Awaitable[Response]]]


def router(routes: Routes, *, hosts: frozenset[str] | None = None) -> Handler:
    """A handler that looks (method, path) up, and refuses a foreign `Host` when `hosts` is given."""

    async def handle(request: Request) -> Response:
        if hosts is not None and not _host_is_ours(request.host, hosts):
            return Response(b"unknown host\n", 421)
        route = routes.get((request.method, request.path))
        if route is None:
            known = request.path in {path for _, path in routes}
            return as_json(
                {"error": "method not allowed" if known else "no such path"}, 405 if known else 404
            )
        try:
            return await route(request)
        except Exception:  # a question must never end the node; the traceback is for its log
            log.exception("%s %s failed", request.method, request.path)
            return as_json({"error": "internal error; see the node's log"}, 500)

    return handle


def _host_is_ours(host: str, hosts: frozenset[str]) -> bool:
    name = re.sub(r":\d{1,5}$", "", host)
    if name in hosts or name == "localhost":
        return True
    try:
        ip_address(name[1:-1] if name.startswith("[") and name.endswith("]") else name)
    except ValueError:
        return False
    return True


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


async def serve(listener: trio.SocketListener, handler: Handler, body_bytes_max: int = 0) -> None:
    """Serve connections until cancelled, `CONNECTIONS_MAX` at a time; bodies of requests as `serve_connection` says."""
    limiter = trio.CapacityLimiter(CONNECTIONS_MAX)

    async def connection(stream: trio.SocketStream) -> None:
        async with limiter:
            await serve_connection(stream, handler, body_bytes_max=body_bytes_max)

    await trio.serve_listeners(connection, [listener])
