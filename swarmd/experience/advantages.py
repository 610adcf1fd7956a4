"""Group-relative advantages of one rollout; promises plain floats, no tensors, and no division by zero.

Source: GRPO (arXiv 2402.03300, section 4.1.2), as used by arXiv 2509.08721.
"""

import math
from collections.abc import Sequence
from typing import Literal

Scale = Literal["std", "none"]

# TRL's constant. It keeps two rewards that differ only by rounding from full-sized advantages. The smallest spread of eight rewards
# that means anything (0.01 against 0) has a standard deviation of 3.5e-3, and loses under 3 % of its advantage.
EPS = 1e-4


def is_informative(rewards_G: Sequence[float]) -> bool:
    """Whether the rewards are not all equal, which is whether any advantage differs from zero.

    Equality is exact: equal answers get equal scores from one scorer, and `EPS` makes a rounding-sized difference harmless.
    """
    return any(reward != rewards_G[0] for reward in rewards_G)


def level(rewards_G: Sequence[float], spread_min: float) -> list[float]:
    """The rewards; or their mean for each, where the best and the worst lie less than `spread_min` apart and so teach nothing.

    Dividing by the standard deviation blows crumbs up. One 0.05 among seven 0.01, which a scorer pays for the shape of a wrong
    answer, has an advantage of +2.5, as much as the only right answer among eight. The mean stays, and so do measured rewards.
    """
    # Rewards like 0.1 + 0.05 miss their sum by a rounding error, which must not decide.
    if max(rewards_G, default=0.0) - min(rewards_G, default=0.0) >= spread_min - 1e-9:
        return list(rewards_G)
    return [math.fsum(rewards_G) / len(rewards_G)] * len(rewards_G)


def advantages(rewards_G: Sequence[float], *, scale: Scale = "std") -> list[float]:
    """Each reward's distance from the rollout's mean, in the rollout's standard deviations unless `scale` is "none".

    The deviation is the sample one (divisor G - 1), as in TRL and in the authors' code. A rollout that is not informative,
    which includes one of a single completion, gets exact zeros.

    Raises:
        ValueError: no rewards, or one that is not finite.
    """
    if not rewards_G:
        raise ValueError("a rollout has at least one completion")
    if not all(math.isfinite(reward) for reward in rewards_G):
        raise ValueError(f"rewards must be finite, got {list(rewards_G)}")
    if not is_informative(rewards_G):
        return [0.0] * len(rewards_G)
    mean = math.fsum(rewards_G) / len(rewards_G)
    centred_G = [reward - mean for reward in rewards_G]
    if scale == "none":
        return centred_G
    std = math.sqrt(math.fsum(value**2 for value in centred_G) / (len(rewards_G) - 1))
    return [value / (std + EPS) for value in centred_G]
