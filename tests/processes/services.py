"""Small services that the supervisor's tests run in real child processes."""

import gc
import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import trio

from swarmd.errors import ModelUnavailable


class Shout(NamedTuple):
    number: int


class Whisper(NamedTuple):
    number: int


class Blocking:
    """A service on the main thread; `fail_start` and `die_starts` choose how starting goes wrong."""

    OPS = frozenset({"echo", "boom", "expected", "stall", "die", "shout"})

    def __init__(self, emit: Callable[[object], None], *, fail_start: bool = False) -> None:
        self.emit, self.fail_start = emit, fail_start

    def start(self) -> dict[str, Any]:
        if self.fail_start:
            raise ModelUnavailable("unknown model 'x'", "it is not a folder", "try 'tiny'")
        return {"pid": os.getpid()}

    def echo(self, value: Any) -> Any:
        return value

    def boom(self) -> None:
        raise ZeroDivisionError("unexpected")

    def expected(self) -> None:
        raise ModelUnavailable("gone", "why", "fix")

    def stall(self) -> None:
        while True:  # holds the interpreter like a computation would, never reads its socket
            time.sleep(0.01)

    def die(self) -> None:
        os._exit(7)

    def shout(self, num: int) -> None:
        for i in range(num):
            self.emit(Shout(i))


class TwoHanded(Blocking):
    """One that stalls with one hand and answers with the other."""

    BESIDE = frozenset({"stall"})


class Babbling(Blocking):
    """Writes something that is no frame into the socket it was given."""

    OPS = frozenset({"echo", "babble"})

    def babble(self) -> None:
        socket.socket(fileno=os.dup(int(sys.argv[1]))).sendall(b"\xff" * 64)
        time.sleep(60)


class Asynchronous:
    """A trio service that reports when it is asked for something while another call is under way."""

    asynchronous = True
    MAY_DROP = (Shout,)
    OPS = frozenset({"hold", "release", "shout", "whisper", "num_frozen"})

    def __init__(self, emit: Callable[[object], None]) -> None:
        self.emit, self.released = emit, trio.Event()

    async def run(self, *, task_status: Any) -> None:
        task_status.started({"pid": os.getpid()})
        await trio.sleep_forever()

    async def hold(self) -> str:
        await self.released.wait()
        return "held"

    async def num_frozen(self) -> int:
        return gc.get_freeze_count()

    async def release(self) -> None:
        self.released.set()

    async def shout(self, num: int) -> None:
        for i in range(num):
            self.emit(Shout(i))

    async def whisper(self, num: int) -> None:
        for i in range(num):
            self.emit(Whisper(i))
