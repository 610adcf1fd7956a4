"""The numbers of one update, checked once: `UpdateSettings`. Imports no torch."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Self, get_args

from swarmd.errors import ConfigError

Aggregation = Literal["dapo", "grpo", "dr_grpo"]
OptimizerName = Literal["adamw", "adam-8bit", "host", "lora"]


@dataclass(frozen=True)
class UpdateSettings:
    """How a round's rollouts become one gradient step. The defaults are the paper's where it states them (`docs`: SAPO).

    Attributes:
        aggregation: how token losses are averaged; see `weighting.token_weights`.
        clip_low, clip_high: the ratio is held in [1 - clip_low, 1 + clip_high] (arXiv 2509.08721). With one step a round
            and no given old log-probs the ratio is exactly 1 and the clip does nothing.
        learning_rate: 1e-6 is what the public trainers use for real models. The paper's text says 1e-3, a thousand times
            more, which its own code does not use; tiny policies trained from scratch want about 3e-4.
        grad_norm_max: the gradient is scaled down to this norm; `inf` turns it off.
        micro_batch_tokens: forwarded tokens a micro-batch. Bounds activation memory, never changes the gradient.
        head_tile: predicting positions whose logits exist at once. 1,024 x 152k x 4 bytes is 0.6 GB.
        temperature: logits are divided by it, as they were when the completions were sampled.
        minibatches, epochs: optimizer steps a round = minibatches x epochs.
        completion_tokens_max: the constant that `dr_grpo` divides by.
        mask_unfinished: completions that were cut at the token limit are not trained on, nor counted as tokens.
        gradient_checkpointing: trades a second forward for activation memory.
        optimizer: what steps, and where its memory is; see `optimizers`.
        lora_rank: of `lora`'s adapters. They want about ten times the learning rate of full training.
    Raises:
        ConfigError: a value is out of its range.
    """

    aggregation: Aggregation = "dapo"
    clip_low: float = 0.2
    clip_high: float = 0.28
    learning_rate: float = 1e-6
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    grad_norm_max: float = 1.0
    micro_batch_tokens: int = 4096
    head_tile: int = 1024
    temperature: float = 1.0
    minibatches: int = 1
    epochs: int = 1
    completion_tokens_max: int | None = None
    mask_unfinished: bool = False
    gradient_checkpointing: bool = False
    optimizer: OptimizerName = "adamw"
    lora_rank: int = 32

    def __post_init__(self) -> None:
        _require(
            self.aggregation in get_args(Aggregation),
            "aggregation",
            self.aggregation,
            "dapo, grpo or dr_grpo",
        )
        _require(
            self.optimizer in get_args(OptimizerName),
            "optimizer",
            self.optimizer,
            "adamw, adam-8bit, host or lora",
        )
        _require(0 < self.clip_low <= 1, "clip_low", self.clip_low, "above 0 and at most 1")
        for name in ("clip_high", "learning_rate", "eps", "grad_norm_max", "temperature"):
            value = getattr(self, name)
            finite_or_norm = math.isfinite(value) or name == "grad_norm_max"
            _require(value > 0 and finite_or_norm, name, value, "above 0")
        _require(
            len(self.betas) == 2 and all(0 <= b < 1 for b in self.betas),
            "betas",
            self.betas,
            "two of 0 <= b < 1",
        )
        _require(self.weight_decay >= 0, "weight_decay", self.weight_decay, "0 or above")
        for name in ("micro_batch_tokens", "head_tile", "minibatches", "epochs", "lora_rank"):
            _require(getattr(self, name) >= 1, name, getattr(self, name), "1 or above")
        limit = self.completion_tokens_max
        _require(limit is None or limit >= 1, "completion_tokens_max", limit, "1 or above")
        _require(
            self.aggregation != "dr_grpo" or limit is not None,
            "completion_tokens_max",
            limit,
            "set, for dr_grpo",
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Build from plain values (a config section). Lists become tuples; a key that does not exist is a ConfigError."""
        unknown = sorted(set(values) - {field.name for field in fields(cls)})
        if unknown:
            raise ConfigError(
                f"update settings do not know {', '.join(unknown)}",
                fix="remove the key or correct its spelling",
            )
        plain: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
        }
        return cls(**plain)


def _require(holds: bool, name: str, value: object, wanted: str) -> None:
    if not holds:
        raise ConfigError(f"update setting {name} is {value!r}", fix=f"{name} must be {wanted}")
