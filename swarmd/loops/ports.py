"""What the loops need from the rest of the node, as small types: a child to call, a thread to block in, a clock."""

import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

# A process that is stopped, or whose device hangs, answers never; without a bound its loop would wait as long. Far above what an
# honest call takes, also one that waits behind another: a bound too low would kill a slow machine's work again and again.
# Generation, update or evaluation: an hour is a slow round, and six are half a night.
MODEL_HANG_S = 6 * 3600.0
# On top of twice the scoring's own deadline (another batch may be before ours): two lost zygotes cost 60 s each to start anew.
SCORER_HANG_S = 600.0


class Caller(Protocol):
    """A child process: `swarmd.processes.supervise.Child`, or a fake in tests."""

    async def call(self, op: str, *, within_s: float | None = None, **args: Any) -> Any:
        """The result of an operation; raises ChildDied or another SwarmdError."""

    async def wait_ready(self) -> dict[str, Any]:
        """What the (newest) start answered."""


class Worker(Caller, Protocol):
    """A caller that can be looked at: what its newest start answered, and whether it is up."""

    info: dict[str, Any]
    num_restarts: int

    @property
    def up(self) -> bool:
        """Whether calls are answered now."""

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""


class RunBlocking(Protocol):
    """Runs a blocking function off the loop: `trio.to_thread.run_sync`, or inline in tests."""

    def __call__(self, function: Callable[..., Any], *args: Any) -> Awaitable[Any]: ...


NowMs = Callable[[], int]
Say = Callable[[str], None]


def wall_clock_ms() -> int:
    """Unix time in milliseconds."""
    return time.time_ns() // 1_000_000
