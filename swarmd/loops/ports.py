"""The loops' needs of the rest of the node as small types: a thread to block in, a clock, a line for people."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class RunBlocking(Protocol):
    """Runs a blocking function off the loop: `trio.to_thread.run_sync`, or inline in tests."""

    def __call__(self, function: Callable[[*Ts], T], *args: *Ts) -> Awaitable[T]: ...


NowMs = Callable[[], int]
Say = Callable[[str], None]
