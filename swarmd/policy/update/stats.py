"""From a round and its passes to what an update reports, `UpdateStats`."""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from swarmd.clients.update_stats import UpdateStats
from swarmd.config import UpdateSection
from swarmd.policy.update.mismatch import measured
from swarmd.policy.update.packing import TokenRollout
from swarmd.policy.update.token_losses import TokenPass
from swarmd.policy.update.weighting import is_counted


def count_round(rollouts: Sequence[TokenRollout], update: UpdateSection) -> UpdateStats:
    """The counts that need no model."""
    completions = [
        (completion, rollout.external) for rollout in rollouts for completion in rollout.completions
    ]
    counted = [(c, external) for c, external in completions if is_counted(c, update)]
    return UpdateStats(
        num_rollouts_local=sum(not rollout.external for rollout in rollouts),
        num_rollouts_external=sum(rollout.external for rollout in rollouts),
        num_completions=len(completions),
        num_zero_advantage=sum(c.advantage == 0 for c, _ in completions),
        num_masked=len(completions) - len(counted),
        num_tokens_local=sum(len(c.ids) for c, external in counted if not external),
        num_tokens_external=sum(len(c.ids) for c, external in counted if external),
    )


def summarise(stats: UpdateStats, passes: Sequence[TokenPass], update: UpdateSection) -> UpdateStats:
    """Add what the passes found to what was known before the first step."""
    logps_N, low_N, high_N, external_N, entropies_M, log_ratios_K = _on_host(
        [found.logps_N for found in passes],
        [found.clipped_low_N for found in passes],
        [found.clipped_high_N for found in passes],
        [found.external_N for found in passes],
        [found.entropies_M for found in passes],
        [found.engine_log_ratios_N for found in passes if found.engine_log_ratios_N is not None],
    )
    external_N = external_N.bool()
    stats = replace(
        stats,
        num_tokens_trained=len(logps_N),
        num_tokens_forwarded=sum(found.num_forwarded for found in passes),
        num_micro_batches=len(passes),
        clip_ratio_low=low_N.double().mean().item(),
        clip_ratio_high=high_N.double().mean().item(),
        mean_logp_local=_mean(logps_N[~external_N]),
        mean_logp_external=_mean(logps_N[external_N]),
        entropy=entropies_M.mean().item(),
    )
    log_ratios_K = log_ratios_K[~log_ratios_K.isnan()]
    if not len(log_ratios_K):
        return stats
    capped = log_ratios_K > math.log(update.mismatch_cap)
    share = capped.double().mean().item() if update.mismatch == "token" else 0.0
    return measured(stats, log_ratios_K, share)


def _on_host(*columns: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Each column's parts joined, all of them in one transfer; the first column has parts, and its type is that of all."""
    every = [part.to(columns[0][0].dtype) for parts in columns for part in parts]
    return torch.split(torch.cat(every).cpu(), [sum(map(len, parts)) for parts in columns])


def _mean(values: Tensor) -> float | None:
    return values.mean().item() if len(values) else None
