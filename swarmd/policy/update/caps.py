"""How much external rollouts may weigh in one round: a cap on each, a cap on all.

A weight in front of an external completion is at most 1, but tokens are what the loss counts, and a peer decides how many
there are: 64 completions of 256 tokens beside own ones of 5 would be the whole round, also of its normaliser. So a rollout is
measured by the sum of its tokens' weights, and held to a multiple of the mean own rollout. The weight taken from a rollout goes
back to the rest of the round, which would otherwise shrink to nothing under a normaliser that counts those tokens.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from swarmd.config import Config
from swarmd.policy.update.packing import TokenRollout
from swarmd.policy.update.weighting import normaliser_weights


@dataclass(frozen=True)
class Capped:
    """The round with factors in front of its completions; `num` external rollouts were held down, `share` is what all weigh."""

    rollouts: list[TokenRollout]
    num: int = 0
    share: float | None = None


def cap(rollouts: Sequence[TokenRollout], config: Config) -> Capped:
    """Hold external rollouts to `external_weight_max` mean own rollouts each, and to `external_share_max` of the round together.

    A round that keeps both, or has no own tokens to compare with, comes back as it was, bit for bit.
    """
    weights_R = _weights(rollouts, config)
    external_R = [rollout.external for rollout in rollouts]
    own = math.fsum(w for w, external in zip(weights_R, external_R, strict=True) if not external)
    theirs = math.fsum(w for w, external in zip(weights_R, external_R, strict=True) if external)
    if own <= 0 or theirs <= 0:
        return Capped(list(rollouts), share=theirs / (own + theirs) if theirs > 0 else None)
    limit = (config.update.external_weight_max or math.inf) * own / external_R.count(False)
    held_R = [min(w, limit) if external else w for w, external in zip(weights_R, external_R, strict=True)]
    share_max, held = config.update.external_share_max, math.fsum(held_R) - own
    allowed = own * share_max / (1 - share_max) if share_max < 1 else math.inf
    factor = allowed / held if held > allowed else 1.0
    held_R = [w * factor if external else w for w, external in zip(held_R, external_R, strict=True)]
    if held_R == weights_R:
        return Capped(list(rollouts), share=theirs / (own + theirs))
    total = math.fsum(held_R)
    back = (own + theirs) / total
    return Capped(
        [
            _scaled(rollout, back * held / weight if weight > 0 else 1.0)
            for rollout, held, weight in zip(rollouts, held_R, weights_R, strict=True)
        ],
        num=sum(held < weight for held, weight in zip(held_R, weights_R, strict=True)),
        share=1 - own / total,
    )


def _weights(rollouts: Sequence[TokenRollout], config: Config) -> list[float]:
    """The sum of its tokens' weights, by rollout."""
    weights = iter(normaliser_weights(rollouts, config))
    return [math.fsum(next(weights) * len(c.ids) for c in rollout.completions) for rollout in rollouts]


def _scaled(rollout: TokenRollout, factor: float) -> TokenRollout:
    completions = tuple(replace(c, weight=c.weight * factor) for c in rollout.completions)
    return replace(rollout, completions=completions)
