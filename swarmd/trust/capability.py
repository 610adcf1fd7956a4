"""How well other authors answer, against this node: moving means of rewards that this node itself gave.

Every scored rollout counts, informative or not: an author whose answers are always right teaches nothing and is capable. Nothing
that an author says of itself is used. An author that shares only its good answers looks better than it is, and gains at most the
weight that everybody has by default.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from swarmd.recent import Recent

# Rollouts over which a mean moves. Over 32, the ratio of two equal policies strays by a fifth.
WINDOW = 64
# Rollouts below which a mean says nothing. Of 8, a beginner's one lucky rollout moves the ratio by a tenth.
ROLLOUTS_MIN = 16
# Authors remembered, a megabyte. The author heard of longest ago is forgotten, since identities cost nothing.
AUTHORS_MAX = 4096


@dataclass
class _Mean:
    value: float = 0.0
    num: int = 0

    def add(self, reward: float) -> None:
        """Plain mean of the first `WINDOW`, then an exponential one."""
        self.num += 1
        self.value += (reward - self.value) / min(self.num, WINDOW)


@dataclass
class Capability:
    """Moving mean rewards of this node and of other authors; begins anew with the process."""

    _own: _Mean = field(default_factory=_Mean)
    _by_author: Recent[bytes, _Mean] = field(default_factory=lambda: Recent(AUTHORS_MAX))

    def observe_own(self, rewards_G: Sequence[float]) -> None:
        self._own.add(math.fsum(rewards_G) / len(rewards_G))

    def observe(self, author: bytes, rewards_G: Sequence[float]) -> None:
        if not rewards_G:
            return
        mean = self._by_author.get(author) or _Mean()
        mean.add(math.fsum(rewards_G) / len(rewards_G))
        self._by_author[author] = mean

    def ratio(self, author: bytes) -> float:
        """The author's mean reward over ours, at most 1; 1 while either has too little data, or we earn nothing."""
        theirs = self._by_author.get(author)
        if theirs is None or min(theirs.num, self._own.num) < ROLLOUTS_MIN or self._own.value <= 0:
            return 1.0
        return min(1.0, max(0.0, theirs.value) / self._own.value)
