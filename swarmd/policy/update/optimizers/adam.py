"""Adam's moments in full precision, stepped by torch's fused AdamW wherever the masters are."""

from collections.abc import Mapping

import torch
from torch import Tensor

from swarmd.policy.update.settings import UpdateSettings


class FullMoments:
    """Two averages in the masters' precision: 8 bytes a parameter."""

    def __init__(self, masters: Mapping[str, Tensor], settings: UpdateSettings) -> None:
        self._masters = masters
        self._adam = torch.optim.AdamW(
            list(masters.values()),
            lr=settings.learning_rate,
            betas=settings.betas,
            eps=settings.eps,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        for master in masters.values():
            self._adam.state[master] = {
                "step": torch.zeros((), dtype=torch.float32, device=master.device),
                "exp_avg": torch.zeros_like(master, requires_grad=False),
                "exp_avg_sq": torch.zeros_like(master, requires_grad=False),
            }

    def apply(self) -> None:
        self._adam.step()

    def tensors(self) -> dict[str, Tensor]:
        return {
            f"{kind}/{name}": value
            for name, master in self._masters.items()
            for kind, value in self._adam.state[master].items()
        }

    def reset(self) -> None:
        for value in self.tensors().values():
            value.zero_()
