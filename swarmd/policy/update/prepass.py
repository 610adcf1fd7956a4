"""Before the first step: which external completions count, and how much.

One pass without gradient measures only completions whose weight depends on it. Those are external completions with an advantage
where there is a floor, and without a floor the negative ones under `tapered`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from swarmd.clients.update_stats import UpdateStats
from swarmd.config import Config, UpdateSection
from swarmd.policy.update import external
from swarmd.policy.update.caps import cap
from swarmd.policy.update.floor import Floors
from swarmd.policy.update.packing import TokenCompletion, TokenRollout
from swarmd.policy.update.stats import count_round
from swarmd.policy.update.weighting import is_counted

Wanted = Callable[[TokenRollout, TokenCompletion], bool]
LogProbs = Callable[[Sequence[TokenRollout], Wanted], list[list[tuple[float, ...]]]]


@dataclass(frozen=True)
class Prepared:
    """The round with its weights set, and what of its stats is known before the first step."""

    rollouts: list[TokenRollout]
    stats: UpdateStats


def prepare(
    rollouts: Sequence[TokenRollout], config: Config, floors: Floors, log_probs: LogProbs
) -> Prepared:
    """Set every external completion's `weight`, and leave out those below the floor; no normaliser counts them either.

    A rollout that loses a favoured completion is left out whole: otherwise its wrong answers alone would stay, to be pushed down.
    `log_probs` are those of the policy before the first step.
    """
    update = config.update

    def is_needed(rollout: TokenRollout, completion: TokenCompletion) -> bool:
        depends = floors.hold or external.needs_own_logp(completion, update)
        return depends and rollout.external and _can_train(completion, update)

    num_dropped, left_out, result = 0, list[int](), list[TokenRollout]()
    weights, log_ratios = list[float](), list[float]()
    measured = log_probs(rollouts, lambda r, c: is_needed(r, c) and not c.old_logps_T)
    for place, (rollout, measured_G) in enumerate(zip(rollouts, measured, strict=True)):
        if not rollout.external:
            result.append(rollout)
            continue
        logps_G = [
            (c.old_logps_T or logps_T) if is_needed(rollout, c) else ()
            for c, logps_T in zip(rollout.completions, measured_G, strict=True)
        ]
        kept = _above_floors(rollout, logps_G, floors)
        num_dropped += len(rollout.completions) - len(kept)
        if not kept:
            left_out.append(place)
            continue
        completions = []
        for completion, own_logp in kept:
            weight = external.weight(completion, own_logp, update)
            completions.append(replace(completion, weight=completion.weight * weight))
            if _can_train(completion, update):
                weights.append(weight)
                if own_logp is not None and completion.claimed_logp is not None and math.isfinite(own_logp):
                    log_ratios.append(own_logp - completion.claimed_logp)
        result.append(replace(rollout, completions=tuple(completions)))
    capped = cap(result, config)
    stats = replace(
        count_round(rollouts, update),
        external_weight_mean=math.fsum(weights) / len(weights) if weights else None,
        external_weight_zero=weights.count(0.0) / len(weights) if weights else None,
        external_likelihood_ratio=external.mean_shown_ratio(log_ratios),
        left_out=tuple(left_out),
        num_external_dropped=num_dropped,
        external_logp_min=_finite(floors.mean),
        external_token_logp_min=_finite(floors.token),
        num_external_capped=capped.num,
        external_share=capped.share,
    )
    return Prepared(capped.rollouts, stats)


def _above_floors(
    rollout: TokenRollout, logps_G: Sequence[tuple[float, ...]], floors: Floors
) -> list[tuple[TokenCompletion, float | None]]:
    """What the floors leave, with its mean log-prob where that is known; without one a completion stays."""
    kept = []
    for completion, logps_T in zip(rollout.completions, logps_G, strict=True):
        mean = math.fsum(logps_T) / len(logps_T) if logps_T else None
        # a NaN is above no floor
        if not floors.hold or mean is None or (mean >= floors.mean and min(logps_T) >= floors.token):
            kept.append((completion, mean))
        elif completion.advantage > 0:
            return []
    return kept


def _finite(floor: float) -> float | None:
    return floor if floor > -math.inf else None


def _can_train(completion: TokenCompletion, update: UpdateSection) -> bool:
    """Whether there is anything to weigh: tokens, an advantage, and not masked."""
    return bool(completion.ids) and completion.advantage != 0 and is_counted(completion, update)
