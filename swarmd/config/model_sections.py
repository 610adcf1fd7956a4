"""Settings of the model and of its update."""

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from swarmd.config.section import Section, listed
from swarmd.optimizers import PLAN_NAMES

Aggregation = Literal["dapo", "grpo", "dr_grpo"]
Weighting = Literal["as-own", "positive", "tapered"]
Mismatch = Literal["auto", "off", "token"]
# The embedded model, and its own defaults, which are measured (swarmd/tiny): it is small, and its answers are short. Public
# trainers of this algorithm use 1e-6 for real models; the paper's text says 1e-3, at which a policy of 0.5 B falls apart.
TINY = "tiny"
TINY_LEARNING_RATE, LEARNING_RATE = 3e-4, 1e-6
TINY_TOKENS_MAX, TOKENS_MAX = 16, 256


class PolicySettings(Section):
    """The model, where it runs, and how it generates."""

    model: str = Field(
        TINY, description="`tiny`, a known name such as `Qwen2.5-0.5B`, a hub id, or a folder."
    )
    device: str = Field(
        "auto",
        pattern=r"^(auto|cpu|mps|cuda(:\d{1,2})?)$",
        description="`auto`, `cpu`, `cuda`, `cuda:N` or `mps`. The CPU is taken only when asked for, or with `tiny`.",
    )
    placement: Literal["auto", "shared", "split"] = Field(
        "auto", description="Generation and update in one child process (`shared`) or two (`split`)."
    )
    engine: Literal["auto", "vllm", "transformers"] = Field(
        "auto",
        description="What generates. `auto`: vLLM on CUDA where it is installed and takes the model, else transformers.",
    )
    plan: str = Field(
        "auto",
        description=f"The memory plan: {', '.join(f'`{name}`' for name in PLAN_NAMES)}, or `auto`, which takes the first that"
        " fits what is free; see [memory plans](../memory-plans.md).",
    )
    threads: int = Field(0, ge=0, le=512, description="CPU threads of each child; 0 lets torch choose.")
    temperature: float = Field(1.0, gt=0, le=4, description="Sampling temperature of rollouts.")
    tokens_max: int = Field(
        0, ge=0, le=32768, description="Longest completion in tokens; 0: 16 for `tiny`, else 256."
    )
    generate_batch_tokens: int = Field(
        16384, ge=64, description="Most prompt and completion tokens that generation holds at once."
    )

    @field_validator("plan")
    @classmethod
    def _is_a_plan(cls, value: str) -> str:
        if value not in ("auto", *PLAN_NAMES):
            raise ValueError(f"the plans are {', '.join(PLAN_NAMES)}, and auto")
        return value

    @field_validator("tokens_max")
    @classmethod
    def _own_length(cls, value: int, info: ValidationInfo) -> int:
        return value or (TINY_TOKENS_MAX if info.data.get("model") == TINY else TOKENS_MAX)


class UpdateSection(Section):
    """The policy update (GRPO)."""

    learning_rate: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Adam's learning rate; 0: the model's own default (1e-6, for `tiny` far more).",
    )
    aggregation: Aggregation = Field(
        "dapo",
        description="How token losses are averaged: over all tokens of the round, per completion, or by a constant.",
    )
    clip_low: float = Field(0.2, gt=0, le=1, description="The ratio is clipped below at 1 minus this.")
    clip_high: float = Field(0.28, gt=0, lt=10, description="The ratio is clipped above at 1 plus this.")
    advantage_scale: Literal["std", "none"] = Field(
        "std",
        description="Whether advantages are divided by the standard deviation of their rollout's rewards.",
    )
    minibatches: int = Field(
        1, ge=1, le=64, description="Optimizer steps into which one round's training set is cut."
    )
    epochs: int = Field(1, ge=1, le=16, description="Passes over one round's training set.")
    micro_batch_tokens: Literal["auto"] | int = Field(
        "auto", description="Most tokens forwarded at once, at least 64; `auto`: 4096, on a CPU 2048."
    )
    grad_norm_max: float = Field(1.0, gt=0, description="Gradients are scaled down to this norm.")
    adam_eps: float = Field(
        1e-8, gt=0, lt=1, description="Adam's epsilon, added to the root of the second moment."
    )
    weight_decay: float = Field(0.0, ge=0, description="AdamW's weight decay.")
    mask_unfinished: bool = Field(
        False, description="Leave completions that were cut at the length limit out of the loss."
    )
    devices: tuple[str, ...] = Field(
        (),
        description="CUDA devices that share the update, each with the whole model, such as `cuda:1,cuda:2`. Empty or `auto`:"
        " with a split placement all but the first, which generates.",
    )
    external_weighting: Weighting = Field(
        "as-own",
        description="How much external completions count: see [external weighting](../external-weighting.md).",
    )
    # A perplexity of 55: a text that the policy would not write. At -2 fair answers of a bolder model are left out too.
    external_logp_floor: float = Field(
        -4.0,
        le=0,
        description="`tapered`: a wrong external answer counts from this own log-prob (nats a token) on.",
    )
    external_logp_min: Literal["auto", "off"] | float = Field(
        "auto",
        description="External completions whose mean own log-prob (nats a token) is below this are left out; `auto`: the first"
        " percentile of own completions, less a margin, and likewise for the least likely token; see [guards](../guards.md).",
    )
    external_weight_max: float = Field(
        2.0,
        ge=0,
        le=1000,
        description="The most that one external rollout weighs in the update, all its tokens together, in mean own rollouts;"
        " 0 is off.",
    )
    external_share_max: float = Field(
        0.9, gt=0, le=1, description="The most that all external rollouts weigh of an update; 1 is off."
    )
    mismatch: Mismatch = Field(
        "auto",
        description="Mend the gap between engine and trainer by a weight of each token. `auto`: `token` where the engine has"
        " weights of its own, else `off`.",
    )
    # TRL's cap.
    mismatch_cap: float = Field(
        3.0, ge=1, le=1000, description="`token`: the most a token's ratio of trainer to engine counts."
    )

    @field_validator("micro_batch_tokens")
    @classmethod
    def _is_a_row(cls, value: Literal["auto"] | int) -> Literal["auto"] | int:
        if value != "auto" and value < 64:
            raise ValueError("at least 64 tokens, or auto")
        return value

    @field_validator("external_logp_min")
    @classmethod
    def _is_a_log_prob(cls, value: str | float) -> str | float:
        if not isinstance(value, str) and not -1000 <= value <= 0:
            raise ValueError(
                "external_logp_min is auto, off, or nats a token from -1000 to 0, for example -4"
            )
        return value

    @field_validator("devices", mode="before")
    @classmethod
    def _auto_is_no_list(cls, value: object) -> object:
        return () if value == "auto" else listed(value)
