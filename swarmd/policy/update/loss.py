"""The clipped policy-gradient loss of single tokens, with its slope in closed form."""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class TokenLoss:
    """N tokens: their loss, its derivative by the token's log-prob, and which tokens the clip silenced, by side."""

    loss_N: Tensor
    slope_N: Tensor
    clipped_low_N: Tensor
    clipped_high_N: Tensor

    def scaled(self, factors_N: Tensor) -> Self:
        """With detached factors in front."""
        return replace(self, loss_N=self.loss_N * factors_N, slope_N=self.slope_N * factors_N)


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
