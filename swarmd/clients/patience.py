"""Patience: how long an operation of the policy may take, by how long it took before."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

T = TypeVar("T")

# A device that hangs never answers. The first call may take six hours: a slow machine may need one for its first round. A later
# call may take thirty times the longest so far, and a quarter of an hour at least: a busy disk may take that for a checkpoint.
FIRST_S, FACTOR, LEAST_S = 6 * 3600.0, 30.0, 900.0


class Patience:
    """Remembers how long calls took that were answered."""

    def __init__(self) -> None:
        self._longest_s: float | None = None

    @property
    def bound_s(self) -> float:
        """How long the next call may take."""
        return FIRST_S if self._longest_s is None else max(LEAST_S, FACTOR * self._longest_s)

    async def with_it(self, call: Callable[[float], Awaitable[T]]) -> T:
        """The answer of `call`, which is told how long it may take."""
        began_s = trio.current_time()
        answer = await call(self.bound_s)
        self._longest_s = max(self._longest_s or 0.0, trio.current_time() - began_s)
        return answer
