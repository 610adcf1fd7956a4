"""A child process: one service object, served over the inherited socket until the parent is gone.

`python -m swarmd.processes.child FD package.module:Class` makes the service from the arguments of the first request, and answers
the rest. A blocking service runs its operations one after another on the main thread, while a second thread watches the socket; one
with `asynchronous = True` runs under trio. Both end the process at once when the socket closes, also in the middle of a
computation or of the imports: nothing may outlive a killed daemon. (A parent-death signal would not do: trio spawns from a worker
thread, and the kernel would kill the child when that thread retires.)
"""

import importlib
import os
import queue
import select
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Protocol, get_type_hints

import trio

from swarmd.errors import Failure, SwarmdError, cause
from swarmd.garbage import settle, unsearched
from swarmd.processes.ends import end_process
from swarmd.processes.frames import PING, Dropped, FrameReader, Request, Told, encode_frame
from swarmd.processes.values import typed

# Events that may be dropped wait here when the daemon is slow; past it the oldest is dropped. One is at most 60 KB.
EVENTS_MAX = 512
_READ_BYTES = WRITE_BYTES = 1 << 18


class Service(Protocol):
    """A service has the operations named in `OPS`. `emit` sends an event, a NamedTuple, without blocking.

    A service may also name operations that a blocking one serves `BESIDE` the others, and types of events that a slow daemon
    `MAY_DROP`.
    """

    OPS: ClassVar[frozenset[str]]

    def __init__(self, emit: Callable[[object], None], **args: object) -> None: ...


class BlockingService(Service, Protocol):
    """A service that computes. It may have a static `ruined_by`, which says whether an error leaves its process nothing to go on
    with: the process then ends without an answer."""

    def start(self) -> object:
        """Be ready for operations; the result is what the parent learns of it."""


class AsynchronousService(Service, Protocol):
    """A service that waits for many things at once."""

    async def run(self, *, task_status: trio.TaskStatus[object]) -> None:
        """Serve until cancelled; `task_status` is told what the parent learns of it."""


def main(argv: list[str]) -> None:
    """Serve until the parent's end of the socket closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C belongs to the daemon, which ends us in order
    sock = socket.socket(fileno=int(argv[0]))
    threading.Thread(target=_end_with_parent, args=(sock,), name="parent", daemon=True).start()
    module, _, name = argv[1].partition(":")
    try:
        with unsearched():  # of the policy's 4 CPU seconds of imports 0.7 were that search
            service = getattr(importlib.import_module(module), name)
    except SwarmdError as error:
        sock.sendall(encode_frame(Told(0, None, Failure.of(error))))
        return
    if getattr(service, "asynchronous", False):
        trio.run(_serve_async, service, sock)
    else:
        _serve_blocking(service, sock)


def _end_with_parent(sock: socket.socket) -> None:
    """End this process when the parent has closed its end. Nobody reads the socket during the imports, which take seconds."""
    hung_up = select.poll()
    hung_up.register(sock, 0)  # a closed peer is told unasked
    hung_up.poll()
    os._exit(0)


def _serve_blocking(service_type: type[BlockingService], sock: socket.socket) -> None:
    requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
    beside: queue.SimpleQueue[Request] = queue.SimpleQueue()
    ops_beside: frozenset[str] = getattr(service_type, "BESIDE", frozenset())
    ruined_by: Callable[[Exception], bool] = getattr(service_type, "ruined_by", lambda error: False)
    service: BlockingService | None = None
    lock = threading.Lock()

    def send(message: Told) -> None:
        with lock:
            sock.sendall(encode_frame(message))

    def emit(event: object) -> None:
        send(_told_of(event))

    def watch() -> None:
        reader = FrameReader(Request)
        while data := _receive(sock):
            for request in reader.feed(data):
                if request.op == PING:
                    send(Told(request.id, None))
                    continue
                (beside if request.op in ops_beside else requests).put(request)
        os._exit(0)

    def serve(waiting: queue.SimpleQueue[Request]) -> None:
        nonlocal service
        while True:
            request = waiting.get()
            try:
                if request.op == "start":
                    service = service_type(emit, **request.args)
                    result = service.start()
                else:
                    result = _operation(service, request)()
                send(Told(request.id, result))
            except Exception as error:  # noqa: BLE001 - the boundary: whatever failed is the caller's to see, as data
                if ruined_by(error):
                    end_process(error)
                send(Told(request.id, None, Failure.of(error)))

    threading.Thread(target=watch, name="socket", daemon=True).start()
    if ops_beside:
        threading.Thread(target=serve, args=(beside,), name="beside", daemon=True).start()
    serve(requests)


def _receive(sock: socket.socket) -> bytes:
    try:
        return sock.recv(_READ_BYTES)
    except OSError:
        return b""


def _operation(service: Service | None, request: Request) -> Callable[[], Any]:
    """The operation that is asked for, with its arguments by their types."""
    op = request.op
    if service is None or op not in service.OPS:
        raise SwarmdError(f"{type(service).__name__} has no operation {op!r}")
    function = getattr(service, op)
    hints = get_type_hints(function)
    return partial(function, **{name: typed(hints[name], value) for name, value in request.args.items()})


def _told_of(event: object) -> Told:
    return Told(type(event).__name__, event)


class _Outbox:
    """Messages that wait to be written to the daemon: first those that it must get, then events up to a bound, the oldest first.

    One task writes, many messages at once: it gets a turn where every peer of a network gets one, and somebody waits for each
    reply.
    """

    def __init__(self) -> None:
        self._kept: deque[Told] = deque()
        self._events: deque[Told] = deque()
        self._num_dropped = 0
        self._wake = trio.Event()

    def put(self, message: Told, *, may_drop: bool = False) -> None:
        if may_drop and len(self._events) >= EVENTS_MAX:
            self._events.popleft()
            self._num_dropped += 1
        (self._events if may_drop else self._kept).append(message)
        self._wake.set()

    async def write_to(self, stream: trio.SocketStream) -> None:
        while True:
            while frames := self._next_frames():
                await stream.send_all(frames)
            self._wake = trio.Event()
            await self._wake.wait()

    def _next_frames(self) -> bytes:
        frames = bytearray()
        while self._kept:
            frames += encode_frame(self._kept.popleft())
        if self._num_dropped:
            frames += encode_frame(_told_of(Dropped(self._num_dropped)))
            self._num_dropped = 0
        while self._events and len(frames) < WRITE_BYTES:
            frames += encode_frame(self._events.popleft())
        return bytes(frames)


async def _serve_async(service_type: type[AsynchronousService], sock: socket.socket) -> None:
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
    outbox, reader = _Outbox(), FrameReader(Request)
    may_drop: tuple[type, ...] = getattr(service_type, "MAY_DROP", ())
    service: AsynchronousService | None = None

    def emit(event: object) -> None:
        outbox.put(_told_of(event), may_drop=isinstance(event, may_drop))

    async def answer(request: Request) -> None:
        nonlocal service
        try:
            if request.op == "start":
                service = service_type(emit, **request.args)
                result = await nursery.start(service.run)
                settle()
            else:
                result = await _operation(service, request)()
            outbox.put(Told(request.id, result))
        except Exception as error:  # noqa: BLE001 - the boundary: whatever failed is the caller's to see, as data
            outbox.put(Told(request.id, None, Failure.of(cause(error))))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.write_to, stream)
        while data := await _receive_async(stream):
            for request in reader.feed(data):
                if request.op == PING:
                    outbox.put(Told(request.id, None))
                else:
                    nursery.start_soon(answer, request)
    os._exit(0)


async def _receive_async(stream: trio.SocketStream) -> bytes:
    try:
        data = await stream.receive_some(_READ_BYTES)
    except trio.BrokenResourceError:
        data = b""
    if not data:
        os._exit(0)
    return bytes(data)


if __name__ == "__main__":
    main(sys.argv[1:])
