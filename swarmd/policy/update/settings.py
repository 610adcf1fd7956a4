"""The numbers of one update, checked once: `UpdateSettings`. Imports no torch."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Self, get_args

from swarmd.errors import ConfigError

Weighting = Literal["as-own", "positive", "tapered", "cross", "shaped", "imitate"]
Normaliser = Literal["round", "source"]
Mismatch = Literal["auto", "off", "token", "geometric"]
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
        external_weighting: what stands in front of an external completion's loss; see `external.weight`.
        external_logp_floor: under `tapered`, a wrong external completion without a usable claim counts where the own policy gives
            it at least this mean log-prob (nats a token), else not at all. -4 is a perplexity of 55, a text that the policy would
            not write; the embedded policy's siblings lie at -0.3 to -0.5. At -2 also fair answers of a bolder model go; at -8
            only another alphabet does.
        external_alpha: under `cross`, the ratio's exponent; 0 leaves the capability alone.
        imitate_coefficient: under `imitate`, factor of the cross-entropy. 0.2 is what correct externals weigh together under
            `as-own` in an even mix: 0.17 with one of eight correct, 0.25 with half.
        normaliser: one for the round, or one for each source; see `weighting.weigh`.
        external_logp_min: an external completion whose mean own log-prob is below this is left out of the round; `-inf` is off.
            The service finds it (see `floor`).
        external_token_logp_min: one with a token whose own log-prob is below this is left out, too. Likewise.
        external_weight_max, external_share_max: the most that an external rollout weighs, in mean own rollouts, and the most that
            all of them weigh of the round; `inf` and 1 are off. See `caps`.
        mismatch: what is done about the gap between engine and trainer; see `mismatch`. `auto` is the service's to resolve,
            which knows the engine; here it does nothing.
        mismatch_cap: `token`: a token's ratio counts up to this (TRL's 3.0).
        mismatch_mean_cap: `geometric`: completions whose mean ratio is further from 1 than this factor are left out. Rounding, also
            bfloat16's, stays within 1.1 for 99 % of single tokens; log-probs taken at another temperature (1 for 0.6) give 1.76.
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
    external_weighting: Weighting = "as-own"
    external_logp_floor: float = -4.0
    external_alpha: float = 1.0
    imitate_coefficient: float = 0.2
    normaliser: Normaliser = "round"
    external_logp_min: float = -math.inf
    external_token_logp_min: float = -math.inf
    external_weight_max: float = math.inf
    external_share_max: float = 1.0
    mismatch: Mismatch = "auto"
    mismatch_cap: float = 3.0
    mismatch_mean_cap: float = 1.2

    def __post_init__(self) -> None:
        for name, choices in (
            ("aggregation", get_args(Aggregation)),
            ("optimizer", get_args(OptimizerName)),
            ("external_weighting", get_args(Weighting)),
            ("normaliser", get_args(Normaliser)),
            ("mismatch", get_args(Mismatch)),
        ):
            _require(
                getattr(self, name) in choices, name, getattr(self, name), f"one of {', '.join(choices)}"
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
        _require(self.external_logp_floor <= 0, "external_logp_floor", self.external_logp_floor, "0 or below")
        for name in ("external_logp_min", "external_token_logp_min"):
            _require(getattr(self, name) <= 0, name, getattr(self, name), "0 or below")
        _require(self.external_weight_max > 0, "external_weight_max", self.external_weight_max, "above 0")
        share = self.external_share_max
        _require(0 < share <= 1, "external_share_max", share, "above 0 and at most 1")
        for name, least in (
            ("external_alpha", 0),
            ("imitate_coefficient", 0),
            ("mismatch_cap", 1),
            ("mismatch_mean_cap", 1),
        ):
            value = getattr(self, name)
            _require(math.isfinite(value) and value >= least, name, value, f"{least} or above")
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
