"""What an update reports: `UpdateStats`. Shares are over trained tokens; None means "there were none to measure"."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from swarmd.config import UpdateSection
from swarmd.policy.update.external import effective_share
from swarmd.policy.update.mismatch import measured
from swarmd.policy.update.packing import TokenRollout
from swarmd.policy.update.token_losses import TokenPass


@dataclass(frozen=True)
class UpdateStats:
    """One round's update in numbers: one flat row, because each field is a key of `rounds.jsonl` (docs/reference/rounds.md).

    Attributes:
        skipped: None, "no_data", "zero_advantage" or "non_finite"; the weights are then as they were before the step.
        num_tokens_*: completion tokens of the round, forwarded or not; what the token mean divides by.
        num_masked: completions left out because they were cut (`mask_unfinished`).
        num_tokens_trained: completion tokens with a gradient, summed over steps.
        num_tokens_forwarded: tokens that went through the model for the gradient, shared prompts once a pack.
        clip_ratio_*: share of trained tokens whose gradient the clip removed, by side, then by origin.
        mean_logp_*: mean own log-prob of trained tokens; how (un)likely the own policy finds the others' text.
        external_weight_mean, external_weight_zero, external_effective_share: of the weights in front of external completions that
            have an advantage (under `shaped` of their tokens): mean, share of zeros, effective sample size over the number.
        num_external_dropped: external completions that the floor left out; external_logp_min: the floor of their mean
            log-prob a token, None while there is none; external_token_logp_min: that of their least likely token.
        left_out: places of external rollouts of which nothing was left to train on: below the floor, or too long for this model.
        num_external_capped: external rollouts held down by a cap; external_share: what all of them weigh of the round, held down.
        external_likelihood_ratio: own over claimed probability a token, geometric mean, where both were needed and known.
        imitation_loss: mean cross-entropy of imitated tokens in nats, without the coefficient.
        mismatch_ratio_*: trainer's over engine's probability of trained own tokens before the first step.
        mismatch_cut: share of those tokens whose ratio was capped, or of own completions that the mask left out.
        entropy: mean of the policy at a sample of trained tokens, in nats.
        fast_path, self_check: whether prompts were shared, and what the one-time comparison said.
    """

    loss: float = 0.0
    grad_norm: float = 0.0
    num_steps: int = 0
    num_rollouts_local: int = 0
    num_rollouts_external: int = 0
    num_completions: int = 0
    num_zero_advantage: int = 0
    num_masked: int = 0
    num_tokens_local: int = 0
    num_tokens_external: int = 0
    num_tokens_trained: int = 0
    num_tokens_forwarded: int = 0
    num_micro_batches: int = 0
    clip_ratio_low: float = 0.0
    clip_ratio_high: float = 0.0
    clip_ratio_low_local: float | None = None
    clip_ratio_high_local: float | None = None
    clip_ratio_low_external: float | None = None
    clip_ratio_high_external: float | None = None
    mean_logp_local: float | None = None
    mean_logp_external: float | None = None
    external_weight_mean: float | None = None
    external_weight_zero: float | None = None
    external_effective_share: float | None = None
    num_external_dropped: int = 0
    external_logp_min: float | None = None
    external_token_logp_min: float | None = None
    left_out: tuple[int, ...] = ()
    num_external_capped: int = 0
    external_share: float | None = None
    external_likelihood_ratio: float | None = None
    imitation_loss: float | None = None
    mismatch_ratio_mean: float | None = None
    mismatch_ratio_p99: float | None = None
    mismatch_ratio_max: float | None = None
    mismatch_cut: float | None = None
    entropy: float | None = None
    fast_path: bool = False
    self_check: str = ""
    skipped: str | None = None
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values for the wire between processes."""
        return {**asdict(self), "left_out": list(self.left_out)}


def count_round(rollouts: Sequence[TokenRollout], update: UpdateSection) -> UpdateStats:
    """The counts that need no model."""
    completions = [
        (completion, rollout.external) for rollout in rollouts for completion in rollout.completions
    ]
    counted = [(c, external) for c, external in completions if c.finished or not update.mask_unfinished]
    return UpdateStats(
        num_rollouts_local=sum(not rollout.external for rollout in rollouts),
        num_rollouts_external=sum(rollout.external for rollout in rollouts),
        num_completions=len(completions),
        num_zero_advantage=sum(c.advantage == 0 for c, _ in completions),
        num_masked=len(completions) - len(counted),
        num_tokens_local=sum(len(c.ids) for c, external in counted if not external),
        num_tokens_external=sum(len(c.ids) for c, external in counted if external),
    )


def summarise(counts: UpdateStats, passes: Sequence[TokenPass], update: UpdateSection) -> UpdateStats:
    """Add what the passes found to the round's counts."""
    external_N = torch.cat([found.external_N for found in passes])
    logps_N = torch.cat([found.logps_N for found in passes])
    low_N = torch.cat([found.clipped_low_N for found in passes]).to(logps_N.dtype)
    high_N = torch.cat([found.clipped_high_N for found in passes]).to(logps_N.dtype)
    return replace(
        counts,
        num_tokens_trained=len(logps_N),
        num_tokens_forwarded=sum(found.num_forwarded for found in passes),
        num_micro_batches=len(passes),
        clip_ratio_low=low_N.mean().item(),
        clip_ratio_high=high_N.mean().item(),
        clip_ratio_low_local=_mean(low_N[~external_N]),
        clip_ratio_high_local=_mean(high_N[~external_N]),
        clip_ratio_low_external=_mean(low_N[external_N]),
        clip_ratio_high_external=_mean(high_N[external_N]),
        mean_logp_local=_mean(logps_N[~external_N]),
        mean_logp_external=_mean(logps_N[external_N]),
        entropy=torch.cat([found.entropies_M for found in passes]).mean().item(),
        imitation_loss=_mean(-logps_N[external_N]) if update.external_weighting == "imitate" else None,
        **_shaping(passes),
        **_mismatch(passes, update),
    )


def _shaping(passes: Sequence[TokenPass]) -> dict[str, Any]:
    """The weights of `shaped`, which are its tokens'."""
    factors = [found.shaping_N[found.external_N] for found in passes if found.shaping_N is not None]
    weights = torch.cat(factors).tolist() if factors else []
    if not weights:
        return {}
    return {
        "external_weight_mean": math.fsum(weights) / len(weights),
        "external_weight_zero": weights.count(0.0) / len(weights),
        "external_effective_share": effective_share(weights),
    }


def _mismatch(passes: Sequence[TokenPass], update: UpdateSection) -> dict[str, Any]:
    found = [found.engine_log_ratios_N for found in passes if found.engine_log_ratios_N is not None]
    if not found:
        return {}
    log_ratios_K = torch.cat(found)
    log_ratios_K = log_ratios_K[~log_ratios_K.isnan()]
    capped = log_ratios_K > math.log(update.mismatch_cap)
    share = capped.double().mean().item() if update.mismatch == "token" else 0.0
    return measured(log_ratios_K, share)


def _mean(values: Tensor) -> float | None:
    return values.mean().item() if len(values) else None
