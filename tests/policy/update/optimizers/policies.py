"""Small models under each optimizer, and what to compare of them."""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from swarmd.optimizers import OPTIMIZERS
from swarmd.policy.update.learner import Learner
from swarmd.policy.update.optimizers.lora import LEARNING_RATE_FACTOR
from tests.policy.settings import learner_with
from tests.policy.tiny_models import build

KINDS = tuple(kind.name for kind in OPTIMIZERS)


def learner_of(
    optimizer: str,
    *,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    kind: str = "qwen-tied",
    **changes: object,
) -> Learner:
    """On a fresh model; equal arguments, equal weights."""
    return learner_on(build(kind, dtype=dtype, seed=seed), optimizer, **changes)


def learner_on(model: PreTrainedModel, optimizer: str, **changes: object) -> Learner:
    """With the same step under each optimizer: `lora` multiplies the learning rate."""
    rate = 1e-2 / (LEARNING_RATE_FACTOR if optimizer == "lora" else 1)
    return learner_with(model, **{"learning_rate": rate, "lora_rank": 4, "optimizer": optimizer, **changes})


def parameters(model: PreTrainedModel) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def saved(learner: Learner) -> dict[str, Tensor]:
    return {key: value.clone() for key, value in learner.optimizer_tensors().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
