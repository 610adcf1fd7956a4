"""Adam's moments in full precision, stepped by torch's fused AdamW wherever the masters are."""

from collections.abc import Mapping

import torch
from torch import Tensor
from transformers import PreTrainedModel

from swarmd.config import UpdateSection
from swarmd.policy.plans.ladder import Execution
from swarmd.policy.update.masters import MasterWeights
from swarmd.policy.update.optimizers.optimizer import Optimizer

BETAS = (0.9, 0.999)


def build(model: PreTrainedModel, update: UpdateSection, how: Execution) -> Optimizer:
    """AdamW on masters beside the model."""
    return on_masters(MasterWeights(model), update)


def on_masters(masters: MasterWeights, update: UpdateSection) -> Optimizer:
    """AdamW on these masters, which are closed again where the moments do not fit in memory."""
    with masters.closed_on_error():
        moments = FullMoments(masters.by_name, update, update.learning_rate)
    return Optimizer("adamw", masters, [moments], update.grad_norm_max)


class FullMoments:
    """Two averages in the masters' precision: 8 bytes a parameter."""

    def __init__(self, masters: Mapping[str, Tensor], update: UpdateSection, learning_rate: float) -> None:
        self._masters = masters
        self._adam = torch.optim.AdamW(
            list(masters.values()),
            lr=learning_rate,
            betas=BETAS,
            eps=update.adam_eps,
            weight_decay=update.weight_decay,
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
