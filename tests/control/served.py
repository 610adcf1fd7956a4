"""A listener in memory, and connections to it through the real `serve`: what a client of the node's sockets meets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import trio
import trio.testing

from swarmd.control.http import End, Handler, Request, Response, Service, as_json
from swarmd.control.server import CONNECTIONS_MAX, Routes, router, serve


class MemoryListener(trio.abc.Listener[trio.abc.HalfCloseableStream]):  # type: ignore[misc]
    """A listener whose clients come through a channel; an OSError that comes through it is raised by the accept."""

    def __init__(self) -> None:
        self._arrive, self._arrived = trio.open_memory_channel[trio.abc.HalfCloseableStream | OSError](1000)

    def connect(self) -> trio.abc.HalfCloseableStream:
        """The client's end of a new connection."""
        ours, theirs = trio.testing.memory_stream_pair()
        self.arrive(theirs)
        return ours

    def arrive(self, found: trio.abc.HalfCloseableStream | OSError) -> None:
        """What the next accept finds."""
        self._arrive.send_nowait(found)

    async def accept(self) -> trio.abc.HalfCloseableStream:
        """The next client, or failure."""
        found = await self._arrived.receive()
        if isinstance(found, OSError):
            raise found
        return found

    async def aclose(self) -> None:
        """Nothing is open."""
        await trio.lowlevel.checkpoint()


@dataclass
class Served:
    """A service that is being served; `ends` says how connections ended, in order."""

    listener: MemoryListener
    ends: list[End] = field(default_factory=list)

    def connect(self) -> trio.abc.HalfCloseableStream:
        """The client's end of a new connection."""
        return self.listener.connect()

    async def ask(self, *pieces: bytes) -> bytes:
        """Everything that the server says to these pieces of a request before it closes."""
        stream = self.connect()
        with suppress(trio.BrokenResourceError):  # it may close before all is sent
            for piece in pieces:
                await stream.send_all(piece)
                await trio.testing.wait_all_tasks_blocked()
        return await all_of(stream)


async def all_of(stream: trio.abc.HalfCloseableStream) -> bytes:
    """What comes until the other end closes; then this end is closed, too."""
    said = b""
    async with stream:
        while piece := await stream.receive_some(65536):
            said += piece
    return said


@asynccontextmanager
async def served(service: Service | Handler, connections_max: int = CONNECTIONS_MAX) -> AsyncIterator[Served]:
    """Serve in the background; leaving waits until every connection has ended, and fails if serving did."""
    one = Served(MemoryListener())
    if not isinstance(service, Service):
        service = Service(service)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(serve, one.listener, service, one.ends.append, connections_max))
        await trio.testing.wait_all_tasks_blocked()
        yield one
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


async def answer_to(service: Service | Handler, *pieces: bytes) -> tuple[bytes, End]:
    """What one client is answered, and how its connection ended."""
    async with served(service) as one:
        answer = await one.ask(*pieces)
        await trio.testing.wait_all_tasks_blocked()
    return answer, one.ends[0]


async def echo(request: Request) -> Response:
    """Path and query, as they were understood."""
    return as_json({"path": request.path, "query": dict(request.query)})


async def length(request: Request) -> Response:
    """How long the body is."""
    return as_json({"length": len(request.body)})


ROUTES: Routes = {("GET", "/v1/status"): echo, ("POST", "/v1/publish"): length}
ROUTER = router(ROUTES)


def request(target: str, *, method: str = "GET", host: str = "localhost", more: str = "") -> bytes:
    """A request with an empty body."""
    return f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode()


def posted(body: bytes) -> bytes:
    """A request with this body."""
    return b"POST /v1/publish HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def status_of(answer: bytes) -> int:
    """The status of an answer."""
    return int(answer.split(b" ", 2)[1])
