"""What runs in a child process: one service object, served over the inherited socket until the parent is gone.

`python -m swarmd.processes.child FD package.module:Class` builds `Class(emit, **args)` from the first frame and answers the rest.
A service names its operations in `OPS`, and in `MAY_DROP` the types of the events that a slow daemon may miss. Events are records,
and `emit` sends one without blocking. A blocking service runs them one after another on the main thread, while a second thread
watches the socket; one with `asynchronous = True` runs under trio. Both end the process at once when the socket closes, also in
the middle of a computation: nothing may outlive a killed daemon. (A parent-death signal would not do: trio spawns from a worker
thread, and the kernel would kill the child when that thread retires.)
"""

import gc
import importlib
import os
import queue
import signal
import socket
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, get_type_hints

import trio

from swarmd.errors import SwarmdError, cause
from swarmd.processes.frames import FrameReader, encode_frame
from swarmd.processes.records import typed

# Events that may be dropped wait here when the daemon is slow; past it the oldest is dropped. One is at most 60 KB.
EVENTS_MAX = 512
_READ_BYTES = WRITE_BYTES = 1 << 18


def main(argv: list[str]) -> None:
    """Serve until the parent's end of the socket closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C belongs to the daemon, which ends us in order
    sock = socket.socket(fileno=int(argv[0]))
    module, _, name = argv[1].partition(":")
    try:
        service = getattr(importlib.import_module(module), name)
    except SwarmdError as error:
        sock.sendall(encode_frame({"id": 0, "error": describe(error)}))
        return
    if getattr(service, "asynchronous", False):
        trio.run(_serve_async, service, sock)
    else:
        _serve_blocking(service, sock)


def describe(error: BaseException) -> dict[str, Any]:
    """An exception as plain values: expected ones keep their kind and text, others their traceback."""
    if isinstance(error, SwarmdError):
        return {"kind": type(error).__name__, "what": error.what, "why": error.why, "fix": error.fix}
    trace = "".join(traceback.format_exception(error))
    return {"kind": "", "what": f"{type(error).__name__}: {error}", "why": trace, "fix": ""}


def _serve_blocking(service_type: Any, sock: socket.socket) -> None:
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    beside: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    ops_beside: frozenset[str] = getattr(service_type, "BESIDE", frozenset())
    service: Any = None
    lock = threading.Lock()

    def send(message: dict[str, Any]) -> None:
        with lock:
            sock.sendall(encode_frame(message))

    def emit(event: object) -> None:
        send(_frame_of(event))

    def watch() -> None:
        reader = FrameReader()
        while data := _receive(sock):
            for request in reader.feed(data):
                if request["op"] == "ping":
                    send({"id": request["id"], "result": None})
                else:
                    (beside if request["op"] in ops_beside else requests).put(request)
        os._exit(0)

    def serve(waiting: queue.SimpleQueue[dict[str, Any]]) -> None:
        nonlocal service
        while True:
            request = waiting.get()
            try:
                if request["op"] == "start":
                    service = service_type(emit, **request["args"])
                    result = service.start()
                else:
                    result = _operation(service, request)()
                reply = {"id": request["id"], "result": result}
            except Exception as error:  # noqa: BLE001 - the boundary: whatever failed is the caller's to see, as data
                reply = {"id": request["id"], "error": describe(error)}
            send(reply)

    threading.Thread(target=watch, name="socket", daemon=True).start()
    if ops_beside:
        threading.Thread(target=serve, args=(beside,), name="beside", daemon=True).start()
    serve(requests)


def _receive(sock: socket.socket) -> bytes:
    try:
        return sock.recv(_READ_BYTES)
    except OSError:
        return b""


def _operation(service: Any, request: dict[str, Any]) -> Callable[[], Any]:
    """The operation that is asked for, with its arguments by their types."""
    op = request["op"]
    if service is None or op not in service.OPS:
        raise SwarmdError(f"{type(service).__name__} has no operation {op!r}")
    function = getattr(service, op)
    hints = get_type_hints(function)
    return partial(function, **{name: typed(hints[name], value) for name, value in request["args"].items()})


def _frame_of(event: object) -> dict[str, Any]:
    return {"event": type(event).__name__, "data": event}


class _Outbox:
    """What waits to be written to the daemon: what it must get first and in full, then events up to a bound, the oldest first.

    One task writes, many messages at once: it gets a turn where every peer of a network gets one, and somebody waits for each
    reply.
    """

    def __init__(self) -> None:
        self._kept: deque[dict[str, Any]] = deque()
        self._events: deque[dict[str, Any]] = deque()
        self._num_dropped = 0
        self._wake = trio.Event()

    def put(self, message: dict[str, Any], *, may_drop: bool = False) -> None:
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
            frames += encode_frame({"dropped": self._num_dropped})
            self._num_dropped = 0
        while self._events and len(frames) < WRITE_BYTES:
            frames += encode_frame(self._events.popleft())
        return bytes(frames)


async def _serve_async(service_type: Any, sock: socket.socket) -> None:
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
    outbox, reader = _Outbox(), FrameReader()
    may_drop: tuple[type, ...] = getattr(service_type, "MAY_DROP", ())
    service: Any = None

    def emit(event: object) -> None:
        outbox.put(_frame_of(event), may_drop=isinstance(event, may_drop))

    async def answer(request: dict[str, Any]) -> None:
        try:
            reply = {
                "id": request["id"],
                "result": await _operation(service, request)(),
            }
        except Exception as error:  # noqa: BLE001 - the boundary: whatever failed is the caller's to see, as data
            reply = {"id": request["id"], "error": describe(error)}
        outbox.put(reply)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.write_to, stream)
        while data := await _receive_async(stream):
            for request in reader.feed(data):
                if request["op"] == "start":
                    try:
                        service = service_type(emit, **request["args"])
                        outbox.put({"id": request["id"], "result": await nursery.start(service.run)})
                        settle()
                    except Exception as error:  # noqa: BLE001 - the boundary, as above
                        outbox.put({"id": request["id"], "error": describe(cause(error))})
                elif request["op"] == "ping":
                    outbox.put({"id": request["id"], "result": None})
                else:
                    nursery.start_soon(answer, request)
    os._exit(0)


def settle() -> None:
    """Keep what a started process consists of out of every further search for cycles: one took 20 ms of the event loop.

    Not for processes that replace what they started with (the policy's model): frozen cycles are never freed.
    """
    gc.collect()
    gc.freeze()


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
