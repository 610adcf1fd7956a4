"""The clipped policy-gradient losses of one pack's tokens, part by part while their log-probs become known, and their sum."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from swarmd.config import UpdateSection
from swarmd.policy.update import mismatch
from swarmd.policy.update.packing import PackTensors


class TokenLoss(NamedTuple):
    """N tokens: their loss, its derivative by the token's log-prob, and which tokens the clip silenced, by side."""

    loss_N: Tensor
    slope_N: Tensor
    clipped_low_N: Tensor
    clipped_high_N: Tensor


def clipped_loss(
    logps_N: Tensor, old_logps_N: Tensor | None, advantages_N: Tensor, *, clip_low: float, clip_high: float
) -> TokenLoss:
    """`-min(r A, clip(r, 1 - clip_low, 1 + clip_high) A)` with `r = exp(logp - old)` (PPO, arXiv 1707.06347).

    `logps_N` must not require grad: the slope is returned instead, so that the head can use it within its forward.
    Where `old_logps_N` is NaN, or None altogether, the reference is the current policy and r is exactly 1.
    The slope is `-r A` where the unclipped term is the smaller one, else 0 (what autograd gives for torch's min and clamp).
    """
    if old_logps_N is None:
        none_N = torch.zeros_like(logps_N, dtype=torch.bool)
        return TokenLoss(-advantages_N, -advantages_N, none_N, none_N)
    ratio_N = torch.exp(logps_N - torch.where(old_logps_N.isnan(), logps_N, old_logps_N))
    free_N = ratio_N * advantages_N
    held_N = ratio_N.clamp(1 - clip_low, 1 + clip_high) * advantages_N
    # A NaN advantage or log-prob must reach the loss, where it is noticed: `minimum` passes it on.
    return TokenLoss(
        -torch.minimum(free_N, held_N),
        torch.where(free_N > held_N, torch.zeros_like(free_N), -free_N),
        (ratio_N < 1 - clip_low) & (advantages_N < 0),
        (ratio_N > 1 + clip_high) & (advantages_N > 0),
    )


@dataclass(frozen=True)
class TokenPass:
    """The result of a pass over one pack, for its N trained tokens in the order of `Pack.completions`.

    `engine_log_ratios_N` is the trainer's log-prob before the first step less the engine's, NaN where no engine measured; None
    when no token of the pack has one.
    """

    loss: Tensor  # this pack's part of the round's loss
    logps_N: Tensor
    clipped_low_N: Tensor
    clipped_high_N: Tensor
    external_N: Tensor
    entropies_M: Tensor
    num_forwarded: int
    engine_log_ratios_N: Tensor | None = None


class TokenLosses:
    """A pack's token losses under one set of settings; `dtype` is that of its log-probs.

    Factors in front of the loss are detached, and refer to the policy before the first step: the old log-probs where there are
    any, else those of the pass itself.
    """

    def __init__(self, tensors: PackTensors, update: UpdateSection) -> None:
        self._tensors, self._update = tensors, update
        self.dtype = tensors.weights_N.dtype

    def slope_of(self, logps: Tensor, part: slice) -> Tensor:
        """The derivative of the round's loss by the log-probs of `part` of the pack's tokens."""
        return self._clipped(logps, part).slope_N * self._factors(logps, part)

    def finish(self, logps_N: Tensor, entropies_M: Tensor, num_forwarded: int) -> TokenPass:
        """The pack's result, once all log-probs are there."""
        every = slice(None)
        found = self._clipped(logps_N, every)
        return TokenPass(
            (found.loss_N * self._factors(logps_N, every)).sum(),
            logps_N,
            found.clipped_low_N,
            found.clipped_high_N,
            self._tensors.external_N,
            entropies_M,
            num_forwarded,
            self._engine_log_ratios(logps_N, every),
        )

    def _clipped(self, logps: Tensor, part: slice) -> TokenLoss:
        old_N, clip = self._tensors.old_logps_N, self._update
        old = None if old_N is None else old_N[part]
        advantages = self._tensors.advantages_N[part]
        return clipped_loss(logps, old, advantages, clip_low=clip.clip_low, clip_high=clip.clip_high)

    def _factors(self, logps: Tensor, part: slice) -> Tensor:
        """Each token's weight in the round's loss, corrected for the engine where that is asked for."""
        weights = self._tensors.weights_N[part]
        if self._update.mismatch == "token" and (ratios := self._engine_log_ratios(logps, part)) is not None:
            return weights * mismatch.factors(ratios, self._update.mismatch_cap)
        return weights

    def _engine_log_ratios(self, logps: Tensor, part: slice) -> Tensor | None:
        engine_N, old_N = self._tensors.engine_logps_N, self._tensors.old_logps_N
        if engine_N is None:
            return None
        before = logps if old_N is None else torch.where(old_N[part].isnan(), logps, old_N[part])
        return before - engine_N[part]
