"""Small models under each optimizer, and what to compare of them."""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from swarmd.policy.update.learner import Learner, UpdateSettings
from tests.policy.tiny_models import build

KINDS = ("adamw", "adam-8bit", "host", "lora")


def settings(optimizer: str, **changes: object) -> UpdateSettings:
    values = {"learning_rate": 1e-2, "lora_rank": 4, "optimizer": optimizer, **changes}
    return UpdateSettings(**values)


def learner_of(
    optimizer: str,
    *,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    kind: str = "qwen-tied",
    **changes: object,
) -> Learner:
    """On a fresh model; equal arguments, equal weights."""
    return Learner(build(kind, dtype=dtype, seed=seed), settings(optimizer, **changes))


def parameters(model: PreTrainedModel) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def saved(learner: Learner) -> dict[str, Tensor]:
    return {key: value.clone() for key, value in learner.optimizer_tensors().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
