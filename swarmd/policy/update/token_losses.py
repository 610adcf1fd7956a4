"""The losses of one pack's tokens, part by part while their log-probs become known: `TokenLosses`, and what it sums to."""

from dataclasses import dataclass

from torch import Tensor

from swarmd.policy.update.loss import TokenLoss, clipped_loss
from swarmd.policy.update.packing import PackTensors
from swarmd.policy.update.settings import UpdateSettings


@dataclass(frozen=True)
class TokenPass:
    """What a pass over one pack found, for its N trained tokens in the order of `Pack.completions`."""

    loss: Tensor  # this pack's part of the round's loss
    logps_N: Tensor
    clipped_low_N: Tensor
    clipped_high_N: Tensor
    external_N: Tensor
    entropies_M: Tensor
    num_forwarded: int


class TokenLosses:
    """A pack's token losses under one set of settings; `dtype` is that of its log-probs."""

    def __init__(self, tensors: PackTensors, settings: UpdateSettings) -> None:
        self._tensors, self._settings = tensors, settings
        self.dtype = tensors.weights_N.dtype

    def slope_of(self, logps: Tensor, part: slice) -> Tensor:
        """The derivative of the round's loss by the log-probs of `part` of the pack's tokens."""
        return self._token_loss(logps, part).slope_N * self._tensors.weights_N[part]

    def finish(self, logps_N: Tensor, entropies_M: Tensor, num_forwarded: int) -> TokenPass:
        """The pack's result, once all log-probs are there."""
        every = self._token_loss(logps_N, slice(None))
        return TokenPass(
            (every.loss_N * self._tensors.weights_N).sum(),
            logps_N,
            every.clipped_low_N,
            every.clipped_high_N,
            self._tensors.external_N,
            entropies_M,
            num_forwarded,
        )

    def _token_loss(self, logps: Tensor, part: slice) -> TokenLoss:
        tensors = self._tensors
        old = None if tensors.old_logps_N is None else tensors.old_logps_N[part]
        return clipped_loss(
            logps,
            old,
            tensors.advantages_N[part],
            clip_low=self._settings.clip_low,
            clip_high=self._settings.clip_high,
        )
