"""Where the node stands: own rollouts waiting for use, round and policy version, and the last rounds.

The one object the loops share. It adds the waiting to the pool of own batches: generation waits for room in it, the update for a
batch.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import trio

from swarmd.errors import SwarmdError
from swarmd.experience.capability import Capability
from swarmd.experience.own import OwnExperience
from swarmd.experience.pools import LocalPool
from swarmd.metrics import Metrics
from swarmd.trust.proof import OwnWork

# Rounds kept in memory for `swarmd status`; the whole history is in rounds.jsonl.
ROUNDS_KEPT = 1000
# Rounds over which the status averages rewards: long enough to be calm at 32 completions a round.
RECENT_ROUNDS = 20
# Authors whose used rollouts are counted; past it the one whose were used longest ago is forgotten. New identities cost a peer
# nothing, and the counts go into every checkpoint: 4,096 are 250 KB there.
AUTHORS_KEPT = 4096


@dataclass
class Progress:
    """Round and version count completed updates of this node; `phase` is one of `metrics.PHASES`.

    `plan` is the memory plan in force, empty where there is none.
    `canary_warning` is the policy's last fall until the next good measurement, `alone_warning` why not everybody's rollouts may be
    drawn now.
    `generate_error` and `checkpoint_error` are what went wrong last, until it goes well again.
    """

    pool: LocalPool
    round: int = 0
    policy_version: int = 0
    phase: str = "starting"
    plan: str = ""
    rounds: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=ROUNDS_KEPT))
    evaluations: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=ROUNDS_KEPT))
    used_by_author: dict[str, int] = field(default_factory=dict)
    num_shared: int = 0
    num_received: int = 0
    network: dict[str, Any] = field(default_factory=dict)
    trust: dict[str, Any] = field(default_factory=dict)
    buffer: dict[str, Any] = field(default_factory=dict)
    stop_requested: bool = False
    evaluate_at_stop: bool = False
    capability: Capability = field(default_factory=Capability)
    own_work: OwnWork = field(default_factory=OwnWork)
    canary_warning: str = ""
    alone_warning: str = ""
    generate_error: SwarmdError | None = None
    checkpoint_error: SwarmdError | None = None
    _changed: trio.Event = field(default_factory=trio.Event)

    @property
    def recent(self) -> list[dict[str, Any]]:
        """The last `RECENT_ROUNDS` rounds' records."""
        return list(self.rounds)[-RECENT_ROUNDS:]

    def resume(self, state: Mapping[str, Any], policy_version: int) -> None:
        """Go on from the checkpoint that the weights were loaded from; an empty `state` is a start from nothing."""
        self.policy_version, self.round = policy_version, int(state.get("round", 0))
        self.used_by_author = dict(state.get("used_by_author", {}))
        self.num_shared, self.num_received = (
            int(state.get("num_shared", 0)),
            int(state.get("num_received", 0)),
        )

    def count_used(self, used: Mapping[str, int]) -> None:
        """Add a round's external rollouts by author; the order of `used_by_author` is that of the last use."""
        for peer_id, num in used.items():
            self.used_by_author[peer_id] = self.used_by_author.pop(peer_id, 0) + num
        while len(self.used_by_author) > AUTHORS_KEPT:
            del self.used_by_author[next(iter(self.used_by_author))]

    async def room_to_generate(self) -> None:
        """Wait until a batch begun now would not be too stale at its use."""
        await self._until(lambda: self.pool.has_room)

    def put_own(self, own: OwnExperience) -> None:
        """Queue one round's own experience."""
        self.pool.put(own)
        self.notify()

    async def take_own(self) -> OwnExperience | None:
        """One round's own experience, as soon as there are any; None when the node is to stop. `finish_update` must follow."""
        await self._until(lambda: len(self.pool) > 0 or self.stop_requested)
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
        """Wake everybody who waits for a change."""
        self._changed.set()
        self._changed = trio.Event()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._changed.wait()


def enter(phase: str, progress: Progress, metrics: Metrics) -> None:
    """The update loop does something else now, one of `metrics.PHASES`."""
    progress.phase = phase
    metrics.set_phase(phase)


def mean(values: list[float]) -> float:
    """The mean, or NaN of nothing."""
    return math.fsum(values) / len(values) if values else math.nan
