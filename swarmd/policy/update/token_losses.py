"""The losses of one pack's tokens, part by part while their log-probs become known: `TokenLosses`, and what it sums to."""

from dataclasses import dataclass

import torch
from torch import Tensor

from swarmd.config import UpdateSection
from swarmd.policy.update import mismatch
from swarmd.policy.update.loss import TokenLoss, clipped_loss
from swarmd.policy.update.packing import PackTensors


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
        return self._token_loss(logps, part).slope_N * self._tensors.weights_N[part]

    def finish(self, logps_N: Tensor, entropies_M: Tensor, num_forwarded: int) -> TokenPass:
        """The pack's result, once all log-probs are there."""
        every = slice(None)
        found = self._token_loss(logps_N, every)
        return TokenPass(
            (found.loss_N * self._tensors.weights_N).sum(),
            logps_N,
            found.clipped_low_N,
            found.clipped_high_N,
            self._tensors.external_N,
            entropies_M,
            num_forwarded,
            self._engine_log_ratios(logps_N, every),
        )

    def _token_loss(self, logps: Tensor, part: slice) -> TokenLoss:
        tensors, update = self._tensors, self._update
        found = clipped_loss(
            logps,
            None if tensors.old_logps_N is None else tensors.old_logps_N[part],
            tensors.advantages_N[part],
            clip_low=update.clip_low,
            clip_high=update.clip_high,
        )
        if update.mismatch == "token" and (ratios := self._engine_log_ratios(logps, part)) is not None:
            found = found.scaled(mismatch.factors(ratios, update.mismatch_cap))
        return found

    def _engine_log_ratios(self, logps: Tensor, part: slice) -> Tensor | None:
        """Less the engine's, of the log-probs under the policy before the first step."""
        engine_N, old_N = self._tensors.engine_logps_N, self._tensors.old_logps_N
        if engine_N is None:
            return None
        before = logps if old_N is None else torch.where(old_N[part].isnan(), logps, old_N[part])
        return before - engine_N[part]
