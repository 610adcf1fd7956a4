"""The language-model head on predicting positions only, tile by tile, with its gradient computed in the forward.

A token's loss depends on its own log-prob alone, so the gradient of a tile's logits is known as soon as the tile is: the
logits become their own gradient in place. Logits are never stored or recomputed, and a tile costs three matrix products.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from swarmd.policy.plans.needs import NARROW_BLOCK_BYTES

# Entropy is read off this many rows a tile: it is a gauge, and a full one would double the head's memory.
ENTROPY_ROWS_A_TILE = 64

# Given the log-probs of a tile and where the tile lies among the N targets: the derivative of the loss by each, in their precision.
SlopeOf = Callable[[Tensor, slice], Tensor]


@dataclass(frozen=True)
class HeadPass:
    """`logps_N` of the targets, the loss's gradient by the hidden states, and sampled entropies (M of them)."""

    logps_N: Tensor
    hidden_grad_ND: Tensor | None
    entropies_M: Tensor


@dataclass(frozen=True)
class HeadGradients:
    """Where a head's gradients are added up, in float32 (or wider) whatever the model's precision; None where frozen."""

    weight_VD: Tensor | None
    bias_V: Tensor | None


@torch.no_grad()
def head_pass(
    hidden_ND: Tensor,
    head: nn.Linear,
    targets_N: Tensor,
    *,
    slope_of: SlopeOf | None,
    gradients: HeadGradients | None,
    tile: int,
    temperature: float = 1.0,
) -> HeadPass:
    """Log-probs of `targets_N` under `softmax(head(hidden) / temperature)`.

    With `slope_of` also the gradient by `hidden_ND`, and the head's own added to `gradients`; without, log-probs alone.
    Softmax and loss are in float32, or in float64 when the hidden states are.
    """
    wide = torch.promote_types(hidden_ND.dtype, torch.float32)
    logps_N = torch.empty(hidden_ND.shape[0], dtype=wide, device=hidden_ND.device)
    hidden_grad_ND = None if slope_of is None else torch.empty_like(hidden_ND)
    entropies = []
    for start in range(0, hidden_ND.shape[0], tile):
        part = slice(start, min(start + tile, hidden_ND.shape[0]))
        hidden, targets = hidden_ND[part], targets_N[part, None]
        logits = nn.functional.linear(hidden, head.weight, head.bias).to(wide)
        if temperature != 1.0:
            logits.div_(temperature)
        logits.sub_(logits.logsumexp(-1, keepdim=True))  # now log-probs
        logps_N[part] = logits.gather(-1, targets).squeeze(-1)
        rows = logits[:: -(-logits.shape[0] // ENTROPY_ROWS_A_TILE)]
        entropies.append(-(rows.exp() * rows).nan_to_num(0.0).sum(-1))
        if slope_of is None or hidden_grad_ND is None:
            continue
        slope = slope_of(logps_N[part], part)[:, None] / temperature
        grad = logits.exp_().mul_(-slope).scatter_add_(-1, targets, slope)  # d logp / d logits = onehot - p
        narrow = grad.to(hidden.dtype)
        torch.mm(narrow, head.weight, out=hidden_grad_ND[part])
        _add_head_gradients(gradients, grad, narrow, hidden)
    return HeadPass(logps_N, hidden_grad_ND, torch.cat(entropies))


def _add_head_gradients(
    gradients: HeadGradients | None, grad: Tensor, narrow: Tensor, hidden: Tensor
) -> None:
    if gradients is None:
        return
    if gradients.weight_VD is not None:
        if gradients.weight_VD.dtype == narrow.dtype:
            gradients.weight_VD.addmm_(narrow.t(), hidden)
        else:
            rows = max(NARROW_BLOCK_BYTES // (hidden.shape[1] * hidden.element_size()), 1)
            for start in range(0, narrow.shape[1], rows):
                part = slice(start, start + rows)
                gradients.weight_VD[part].add_(narrow[:, part].t() @ hidden)
    if gradients.bias_V is not None:
        gradients.bias_V.add_(grad.sum(0))
