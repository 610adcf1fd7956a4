"""Where the node stands: own rollouts waiting for use, round and policy version, and the last rounds.

The one object the loops share. Its queue of own batches is what makes generation wait: the batch begun now will be used after
those ahead of it, so it may only begin while at most `staleness_max` updates lie between.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import trio

from swarmd.experience.rollouts import ScoredRollout

# Rounds kept in memory for `swarmd status`; the whole history is in rounds.jsonl.
ROUNDS_KEPT = 1000


@dataclass
class Progress:
    """Round and version count completed updates of this node; `phase` is one of `metrics.PHASES`."""

    staleness_max: int
    round: int = 0
    policy_version: int = 0
    phase: str = "idle"
    update_under_way: bool = False
    generator_version: int = 0
    rounds: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=ROUNDS_KEPT))
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    used_by_author: dict[str, int] = field(default_factory=dict)
    num_shared: int = 0
    num_received: int = 0
    network: dict[str, Any] = field(default_factory=dict)
    buffer: dict[str, Any] = field(default_factory=dict)
    stop_requested: bool = False
    evaluate_at_stop: bool = False
    _batches: deque[list[ScoredRollout]] = field(default_factory=deque)
    _changed: trio.Event = field(default_factory=trio.Event)

    @property
    def num_batches_ahead(self) -> int:
        """Updates that will come before the use of a batch begun now."""
        return len(self._batches) + self.update_under_way

    async def room_to_generate(self) -> None:
        """Wait until a batch begun now would be at most `staleness_max` updates old at its use."""
        await self._until(lambda: self.num_batches_ahead <= self.staleness_max)

    async def put_own(self, rollouts: list[ScoredRollout]) -> None:
        """Queue one round's own rollouts."""
        self._batches.append(rollouts)
        self.notify()

    async def take_own(self) -> list[ScoredRollout] | None:
        """One round's own rollouts, as soon as there are any; None when the node is to stop. Marks the update as under way."""
        await self._until(lambda: bool(self._batches) or self.stop_requested)
        if self.stop_requested:
            return None
        self.update_under_way = True
        return self._batches.popleft()

    def finish_update(self) -> None:
        """The update is over, whatever came of it."""
        self.update_under_way = False
        self.notify()

    def request_stop(self, *, evaluate: bool = False) -> None:
        """Ask the update loop to end after the round under way."""
        self.stop_requested, self.evaluate_at_stop = True, evaluate
        self.notify()

    def notify(self) -> None:
        """Wake everybody who waits for a change."""
        self._changed.set()
        self._changed = trio.Event()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._changed.wait()


def mean(values: list[float]) -> float:
    """The mean, or NaN of nothing."""
    return math.fsum(values) / len(values) if values else math.nan
