"""What the loops need from the rest of the node, as small types: a thread to block in, a clock, a line for people."""

import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar, TypeVarTuple

from swarmd.clients.worker import Worker

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# A process that is stopped, or whose device hangs, answers never; without a bound its loop would wait as long. Far above what an
# honest call takes, also one that waits behind another: a bound too low would kill a slow machine's work again and again.
# Generation, update or evaluation: an hour is a slow round, and six are half a night.
MODEL_HANG_S = 6 * 3600.0


class RunBlocking(Protocol):
    """Runs a blocking function off the loop: `trio.to_thread.run_sync`, or inline in tests."""

    def __call__(self, function: Callable[[*Ts], T], *args: *Ts) -> Awaitable[T]: ...


Caller = Worker
NowMs = Callable[[], int]
Say = Callable[[str], None]


def wall_clock_ms() -> int:
    """Unix time in milliseconds."""
    return time.time_ns() // 1_000_000
