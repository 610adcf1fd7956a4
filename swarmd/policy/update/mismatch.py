"""The gap between engine and trainer, as a ratio of each sampled token, and what mends it: `factors`.

An engine other than the trainer's module computes in another order, precision or version, so it samples from a slightly other
policy than the one whose gradient is taken. `exp(trainer's log-prob - engine's)` of sampled tokens says how far (it is 1 on
average between equal policies), and corrects for it: truncated importance sampling, as TRL 1.16 offers for vLLM. Where the
trainer is an update ahead of the engine's weights, the same ratio covers that update, too. All of it is detached.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor

from swarmd.clients.update_stats import UpdateStats
from swarmd.config import Config, Mismatch

# Log ratios are held within this before they are averaged: one token of an engine that fell apart leaves a number to look at.
LOG_RATIO_SHOWN_MAX = 20.0


def resolve(config: Config, *, own_forward: bool) -> Config:
    """`auto` resolved: `token` for an engine that computes in its own way, `off` for one that runs the trainer's module."""
    if config.update.mismatch != "auto":
        return config
    found: Mismatch = "token" if own_forward else "off"
    update = config.update.model_copy(update={"mismatch": found})
    return config.model_copy(update={"update": update})


def factors(log_ratios_N: Tensor, cap: float) -> Tensor:
    """Each token's `min(ratio, cap)`; 1 where there is no ratio (NaN). The cap bounds the variance and costs a small bias."""
    return torch.where(log_ratios_N.isnan(), 0.0, log_ratios_N).exp().clamp(max=cap)


def measured(stats: UpdateStats, log_ratios_N: Tensor, share_cut: float) -> UpdateStats:
    """The stats with the tokens' ratios: their mean, 99th percentile and maximum, and the share that was cut."""
    if not len(log_ratios_N):
        return stats
    ratios_N = log_ratios_N.double().clamp(-LOG_RATIO_SHOWN_MAX, LOG_RATIO_SHOWN_MAX).exp().sort().values
    return replace(
        stats,
        mismatch_ratio_mean=ratios_N.mean().item(),
        mismatch_ratio_p99=ratios_N[math.ceil(0.99 * len(ratios_N)) - 1].item(),
        mismatch_ratio_max=ratios_N[-1].item(),
        mismatch_cut=share_cut,
    )
