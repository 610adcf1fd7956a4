"""Progress: where the node stands, and own rollouts that wait for use.

The loops share it. It adds the waiting to the pool of own experience: generation waits for room there, the update for an entry.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from swarmd.clients.policy import State
from swarmd.experience.own import OwnExperience
from swarmd.experience.pools import LocalPool
from swarmd.loops.history import History
from swarmd.loops.shown import Shown
from swarmd.metrics import Metrics


@dataclass
class Progress:
    """Round and version count completed updates of this node; `phase` is one of `metrics.labels.PHASES`.

    `plan` is the memory plan in force, empty where there is none.
    """

    pool: LocalPool
    round: int = 0
    policy_version: int = 0
    phase: str = "starting"
    plan: str = ""
    history: History = field(default_factory=History)
    shown: Shown = field(default_factory=Shown)
    stop_requested: bool = False
    evaluate_at_stop: bool = False
    _changed: trio.Event = field(default_factory=trio.Event)

    def resume(self, state: State, policy_version: int) -> None:
        """Go on from the checkpoint that the weights were loaded from; an empty `state` is a start from nothing."""
        self.policy_version, self.round = policy_version, int(state.get("round", 0))
        self.history.resume(state)

    async def room_to_generate(self) -> None:
        """Wait until a generation begun now would not be too stale at its use."""
        await self.until(lambda: self.pool.has_room)

    def expect_own(self) -> None:
        """A round's own rollouts were generated, and are to be scored; `settle_own` must follow."""
        self.pool.num_to_come += 1

    def settle_own(self) -> None:
        """They were put, or are lost."""
        self.pool.num_to_come -= 1
        self.notify()

    def put_own(self, own: OwnExperience) -> None:
        self.pool.put(own)
        self.notify()

    async def take_own(self) -> OwnExperience | None:
        """One round's own experience, as soon as there are any; None when the node is to stop. `finish_update` must follow."""
        await self.until(lambda: len(self.pool) > 0 or self.stop_requested)
        return None if self.stop_requested else self.pool.take()

    def finish_update(self) -> None:
        """The update is over, whatever came of it."""
        self.pool.finish()
        self.notify()

    def request_stop(self, *, evaluate: bool = False) -> None:
        """Ask the update loop to end after the round under way."""
        self.stop_requested, self.evaluate_at_stop = True, evaluate
        self.notify()

    def notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until this holds; whoever may make it hold must `notify`."""
        while not condition():
            await self._changed.wait()


def enter(phase: str, progress: Progress, metrics: Metrics) -> None:
    """The update loop does something else now, one of `metrics.labels.PHASES`."""
    progress.phase = phase
    metrics.set_phase(phase)
