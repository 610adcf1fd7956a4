"""Before the first step: which external completions count and how much, and which own ones were sampled too far off.

One pass without gradient measures only completions whose weight depends on it. Those are external completions with an advantage
where there is a floor; without a floor, negative ones under `tapered` and those with a claim under `cross`. Own completions are
measured under the geometric mask.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch

from swarmd.clients.update_stats import UpdateStats
from swarmd.config import Config, UpdateSection
from swarmd.policy.update import external, mismatch
from swarmd.policy.update.caps import cap
from swarmd.policy.update.floor import Floors
from swarmd.policy.update.packing import TokenCompletion, TokenRollout
from swarmd.policy.update.stats import count_round

LogProbs = Callable[[Sequence[TokenRollout]], list[list[tuple[float, ...]]]]


@dataclass(frozen=True)
class Prepared:
    """The round with its weights set, and what of its stats is known before the first step."""

    rollouts: list[TokenRollout]
    stats: UpdateStats


def prepare(
    rollouts: Sequence[TokenRollout], config: Config, floors: Floors, log_probs: LogProbs
) -> Prepared:
    """Set every completion's `weight`, and leave out external ones below the floor; no normaliser counts them either.

    A rollout that loses a favoured completion is left out whole: otherwise its wrong answers alone would stay, to be pushed down.
    `log_probs` are those of the policy before the first step.
    """
    update = config.update
    own_logps = _log_probs_where(rollouts, lambda r, c: _is_needed(r, c, update, floors), log_probs)
    result, found = [], _Found(update)
    for place, rollout in enumerate(rollouts):
        dropped = {
            number
            for number, completion in enumerate(rollout.completions)
            if rollout.external
            and _can_train(completion, update)
            and _is_too_unlikely(own_logps.get((place, number)), floors)
        }
        if any(rollout.completions[number].advantage > 0 for number in dropped):
            dropped = set(range(len(rollout.completions)))
        if rollout.external and len(dropped) == len(rollout.completions):
            found.left_out.append(place)
        found.num_dropped += len(dropped)
        completions = []
        for number, completion in enumerate(rollout.completions):
            if number in dropped:
                continue
            logps_T = own_logps.get((place, number))
            if rollout.external:
                weight = found.weight_of_external(completion, logps_T, rollout.capability)
            else:
                weight = found.weight_of_own(completion, logps_T)
            completions.append(replace(completion, weight=completion.weight * weight))
        if completions or not rollout.completions:
            result.append(replace(rollout, completions=tuple(completions)))
    capped = cap(result, config)
    stats = replace(
        found.added_to(count_round(rollouts, update)),
        left_out=tuple(found.left_out),
        num_external_dropped=found.num_dropped,
        external_logp_min=_finite(floors.mean),
        external_token_logp_min=_finite(floors.token),
        num_external_capped=capped.num,
        external_share=capped.share,
    )
    return Prepared(capped.rollouts, stats)


@dataclass
class _Found:
    """Weights of the round's completions, and what its stats say of them."""

    update: UpdateSection
    num_dropped: int = 0
    left_out: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    log_ratios: list[float] = field(default_factory=list)
    engine_log_ratios: list[float] = field(default_factory=list)
    kept: list[bool] = field(default_factory=list)

    def added_to(self, stats: UpdateStats) -> UpdateStats:
        ratio = external.mean_shown_ratio(self.log_ratios)
        stats = replace(external.weighed(stats, self.weights), external_likelihood_ratio=ratio)
        if not self.kept:
            return stats
        share = self.kept.count(False) / len(self.kept)
        return mismatch.measured(stats, torch.tensor(self.engine_log_ratios, dtype=torch.float64), share)

    def weight_of_external(
        self, completion: TokenCompletion, logps_T: tuple[float, ...] | None, capability: float
    ) -> float:
        own_logp = math.fsum(logps_T) / len(logps_T) if logps_T else None
        weight = external.weight(completion, own_logp, capability, self.update)
        if _can_train(completion, self.update) and self.update.external_weighting != "shaped":
            self.weights.append(weight)  # those of `shaped` are its tokens', which the passes know
            if own_logp is not None and completion.claimed_logp is not None and math.isfinite(own_logp):
                self.log_ratios.append(own_logp - completion.claimed_logp)
        return weight

    def weight_of_own(self, completion: TokenCompletion, logps_T: tuple[float, ...] | None) -> float:
        if self.update.mismatch != "geometric" or not logps_T or completion.engine_logps_T is None:
            return 1.0
        log_ratios_T = [own - engine for own, engine in zip(logps_T, completion.engine_logps_T, strict=True)]
        self.engine_log_ratios.extend(log_ratios_T)
        self.kept.append(mismatch.keeps(log_ratios_T, self.update.mismatch_mean_cap))
        return float(self.kept[-1])


def _is_needed(
    rollout: TokenRollout, completion: TokenCompletion, update: UpdateSection, floors: Floors
) -> bool:
    if not _can_train(completion, update):
        return False
    if rollout.external:
        return floors.hold or external.needs_own_logp(completion, update)
    return update.mismatch == "geometric" and completion.engine_logps_T is not None


def _is_too_unlikely(logps_T: tuple[float, ...] | None, floors: Floors) -> bool:
    """Whether a completion is below a floor. Without log-probs it is not, and stays in the normaliser."""
    if not floors.hold or not logps_T:
        return False
    mean, least = math.fsum(logps_T) / len(logps_T), min(logps_T)
    # a NaN is neither above nor below
    return not (mean >= floors.mean and least >= floors.token)


def _finite(floor: float) -> float | None:
    return floor if floor > -math.inf else None


def _can_train(completion: TokenCompletion, update: UpdateSection) -> bool:
    """Whether there is anything to weigh: tokens, an advantage, and not masked."""
    return (
        bool(completion.ids)
        and completion.advantage != 0
        and (completion.finished or not update.mask_unfinished)
    )


def _log_probs_where(
    rollouts: Sequence[TokenRollout],
    wanted: Callable[[TokenRollout, TokenCompletion], bool],
    log_probs: LogProbs,
) -> dict[tuple[int, int], tuple[float, ...]]:
    """Log-probs before the first step by rollout and completion: those at hand (`old_logps_T`), the others by one pass."""
    known: dict[tuple[int, int], tuple[float, ...]] = {}
    missing: dict[int, list[int]] = {}
    for place, rollout in enumerate(rollouts):
        for number, completion in enumerate(rollout.completions):
            if not wanted(rollout, completion):
                continue
            if completion.old_logps_T:
                known[place, number] = completion.old_logps_T
            else:
                missing.setdefault(place, []).append(number)
    asked = [
        replace(rollouts[place], completions=tuple(rollouts[place].completions[n] for n in numbers))
        for place, numbers in missing.items()
    ]
    found = log_probs(asked) if asked else []
    for (place, numbers), logps_G in zip(missing.items(), found, strict=True):
        known |= {(place, number): logps_T for number, logps_T in zip(numbers, logps_G, strict=True)}
    return known
