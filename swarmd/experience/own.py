"""One round's own experience: the rollouts kept for its update, and what was measured of everything generated for it.

The two differ where more is generated than kept. The fresh reward compares policies, so it is the mean of everything generated. A
mean over the rollouts that were kept for being informative would say more of the choice than of the policy.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from swarmd.experience.advantages import is_informative
from swarmd.experience.rollouts import ScoredRollout


@dataclass(frozen=True, slots=True)
class Fresh:
    """The generations for one round, R rollouts of G completions each.

    `num_tokens` counts completion tokens, `seconds` is what the engine took.
    """

    rewards_RG: tuple[tuple[float, ...], ...]
    datasets_R: tuple[int, ...]
    num_tokens: int
    seconds: float

    def __post_init__(self) -> None:
        if len(self.rewards_RG) != len(self.datasets_R):
            raise ValueError(f"{len(self.rewards_RG)} rollouts are of {len(self.datasets_R)} datasets")

    @property
    def reward(self) -> float:
        """Mean over all completions; NaN of none."""
        rewards = [reward for rewards_G in self.rewards_RG for reward in rewards_G]
        return math.fsum(rewards) / len(rewards) if rewards else math.nan

    @property
    def num_questions(self) -> int:
        return len(self.rewards_RG)

    @property
    def num_informative(self) -> int:
        """Rollouts whose rewards are not all equal."""
        return sum(map(is_informative, self.rewards_RG))


@dataclass(frozen=True, slots=True)
class OwnExperience:
    """The rollouts for one update, and the measurements of all that were generated to get them."""

    rollouts: tuple[ScoredRollout, ...]
    fresh: Fresh

    @classmethod
    def of(
        cls, generated: Sequence[ScoredRollout], *, num_kept: int, num_tokens: int, seconds: float
    ) -> "OwnExperience":
        """Keep `num_kept` of what was generated: all in their order where there are no more, else the informative ones first."""
        fresh = Fresh(
            rewards_RG=tuple(tuple(rollout.rewards_G) for rollout in generated),
            datasets_R=tuple(rollout.dataset for rollout in generated),
            num_tokens=num_tokens,
            seconds=seconds,
        )
        return cls(tuple(keep(generated, num_kept)), fresh)

    @property
    def num_informative(self) -> int:
        """Of the rollouts kept."""
        return sum(rollout.informative for rollout in self.rollouts)


def keep(generated: Sequence[ScoredRollout], num: int) -> list[ScoredRollout]:
    """At most `num` rollouts: informative ones before others, each in the order generated; all as they are if there are no more."""
    if len(generated) <= num:
        return list(generated)
    return sorted(generated, key=lambda rollout: not rollout.informative)[:num]
