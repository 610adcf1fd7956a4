"""The node's own rollouts between generation and update: in memory, bounded, lost with the process."""

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

from swarmd.experience.rollouts import ScoredRollout


@dataclass(frozen=True, slots=True)
class Taken:
    """What one round got from the pool, and how many rollouts were dropped as too stale on the way."""

    rollouts: list[ScoredRollout]
    num_stale: int
    shortfall: int


class LocalPool:
    """Own rollouts in batches, the oldest batch dropped first. Safe to use from several threads.

    Args:
        batches_max: batches held. Generation that runs ahead of the update by more than this works for nothing.
    """

    def __init__(self, *, batches_max: int) -> None:
        if batches_max < 1:
            raise ValueError(f"batches_max must be at least 1, got {batches_max}")
        self._batches: deque[list[ScoredRollout]] = deque()
        self._batches_max = batches_max
        self._lock = Lock()

    def __len__(self) -> int:
        """Rollouts held."""
        with self._lock:
            return sum(map(len, self._batches))

    def put(self, rollouts: Sequence[ScoredRollout]) -> int:
        """Add one batch; returns how many older rollouts had to go."""
        with self._lock:
            if rollouts:
                self._batches.append(list(rollouts))
            num_dropped = 0
            while len(self._batches) > self._batches_max:
                num_dropped += len(self._batches.popleft())
            return num_dropped

    def take(
        self,
        num: int,
        rng: random.Random,
        *,
        policy_version: int,
        staleness_max: int,
        informative_only: bool = False,
    ) -> Taken:
        """Remove and return at most `num` rollouts, drawn uniformly without replacement.

        Those generated more than `staleness_max` updates before `policy_version` are dropped. `informative_only` draws
        only rollouts with unequal rewards (dynamic sampling, the control arm without a swarm) and leaves the others.
        """
        with self._lock:
            held = [rollout for batch in self._batches for rollout in batch]
            fresh = [r for r in held if policy_version - r.policy_version <= staleness_max]
            wanted = [r for r in fresh if r.informative] if informative_only else fresh
            drawn = rng.sample(wanted, min(num, len(wanted)))
            gone = {id(rollout) for rollout in drawn} | {id(r) for r in held} - {id(r) for r in fresh}
            kept = ([r for r in batch if id(r) not in gone] for batch in self._batches)
            self._batches = deque(batch for batch in kept if batch)
            return Taken(drawn, len(held) - len(fresh), num - len(drawn))
