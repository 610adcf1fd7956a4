"""What the loops need from the rest of the node, as small types: a child to call, a thread to block in, a clock."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol


class Caller(Protocol):
    """A child process: `swarmd.processes.supervise.Child`, or a fake in tests."""

    async def call(self, op: str, *, within_s: float | None = None, **args: Any) -> Any:
        """The result of an operation; raises ChildDied or another SwarmdError."""

    async def wait_ready(self) -> dict[str, Any]:
        """What the (newest) start answered."""


class RunBlocking(Protocol):
    """Runs a blocking function off the loop: `trio.to_thread.run_sync`, or inline in tests."""

    def __call__(self, function: Callable[..., Any], *args: Any) -> Awaitable[Any]: ...


NowMs = Callable[[], int]
Say = Callable[[str], None]
