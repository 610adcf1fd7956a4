"""Every setting of a node, its bounds, its default and its meaning: frozen sections named like the rooms.

The descriptions are the reference manual; `docs/reference/config.md` is generated from them.
"""

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

# The scorer takes this many questions at once (`swarmd.questions.service.ITEMS_MAX`).
QUESTIONS_MAX = 4096


class Section(BaseModel):
    """A group of settings; unknown keys are errors."""

    # a text that looks like a number, such as a swarm's name, came as a number out of JSON
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, coerce_numbers_to_str=True)


def _listed(value: Any) -> Any:
    """One text with commas is a list."""
    return (
        tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value
    )


class PolicySettings(Section):
    """The model, where it runs, and how it generates."""

    model: str = Field(
        "tiny", description="`tiny`, a known name such as `Qwen2.5-0.5B`, a hub id, or a folder."
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
    plan: Literal[
        "auto", "resident", "time-share", "checkpointing", "adam-8bit", "host-optimizer", "lora"
    ] = Field(
        "auto",
        description="The memory plan: `auto` takes the first that fits what is free; see docs/memory-plans.md.",
    )
    threads: int = Field(0, ge=0, le=512, description="CPU threads of each child; 0 lets torch choose.")
    temperature: float = Field(1.0, gt=0, le=4, description="Sampling temperature of rollouts.")
    tokens_max: int = Field(
        0, ge=0, le=32768, description="Longest completion in tokens; 0: 16 for `tiny`, else 256."
    )
    generate_batch_tokens: int = Field(
        16384, ge=64, description="Most prompt and completion tokens that generation holds at once."
    )


class UpdateSection(Section):
    """The policy update (GRPO)."""

    learning_rate: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Adam's learning rate; 0: the model's own default (1e-6, for `tiny` far more).",
    )
    aggregation: Literal["dapo", "grpo", "dr_grpo"] = Field(
        "dapo",
        description="How token losses are averaged: over all tokens of the round, per completion, or by a constant.",
    )
    clip_low: float = Field(0.2, ge=0, lt=1, description="The ratio is clipped below at 1 minus this.")
    clip_high: float = Field(0.28, ge=0, lt=10, description="The ratio is clipped above at 1 plus this.")
    advantage_scale: Literal["std", "none"] = Field(
        "std",
        description="Whether advantages are divided by the standard deviation of their rollout's rewards.",
    )
    advantage_eps: float = Field(1e-4, gt=0, description="Added to that deviation.")
    minibatches: int = Field(
        1, ge=1, le=64, description="Optimizer steps into which one round's training set is cut."
    )
    epochs: int = Field(1, ge=1, le=16, description="Passes over one round's training set.")
    micro_batch_tokens: int = Field(4096, ge=64, description="Most tokens forwarded at once.")
    grad_norm_max: float = Field(1.0, gt=0, description="Gradients are scaled down to this norm.")
    weight_decay: float = Field(0.0, ge=0, description="AdamW's weight decay.")
    mask_unfinished: bool = Field(
        False, description="Leave completions that were cut at the length limit out of the loss."
    )
    devices: tuple[str, ...] = Field(
        (),
        description="CUDA devices that share the update, each with the whole model, such as `cuda:1,cuda:2`. Empty or `auto`:"
        " with a split placement all but the first, which generates.",
    )
    external_weighting: Literal["as-own", "positive", "tapered", "cross", "shaped", "imitate"] = Field(
        "as-own",
        description="How much external completions count: see [external weighting](../external-weighting.md).",
    )
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
    external_alpha: float = Field(
        1.0, ge=0, le=10, description="`cross`: exponent of the ratio of own to sender's probability."
    )
    imitate_coefficient: float = Field(
        0.2, ge=0, le=100, description="`imitate`: factor of the cross-entropy on correct external answers."
    )
    external_baseline_shift: float = Field(
        0.0,
        ge=-1,
        le=1,
        description="Added to the mean reward that external advantages are taken from; below 0 favours good answers.",
    )
    normaliser: Literal["round", "source"] = Field(
        "round",
        description="Average token losses over the whole round, or over own and external ones apart.",
    )
    mismatch: Literal["auto", "off", "token", "geometric"] = Field(
        "auto",
        description="Mend the gap between engine and trainer: weigh tokens, leave completions out, or `auto`: `token`"
        " where the engine has weights of its own, else `off`.",
    )
    mismatch_cap: float = Field(
        3.0, ge=1, le=1000, description="`token`: the most a token's ratio of trainer to engine counts."
    )
    mismatch_mean_cap: float = Field(
        1.2,
        ge=1,
        le=1000,
        description="`geometric`: completions whose mean ratio is off by more than this factor are left out.",
    )

    @field_validator("external_logp_min")
    @classmethod
    def _is_a_log_prob(cls, value: Any) -> Any:
        if not isinstance(value, str) and not -1000 <= value <= 0:
            raise ValueError(
                "external_logp_min is auto, off, or nats a token from -1000 to 0, for example -4"
            )
        return value

    @field_validator("devices", mode="before")
    @classmethod
    def _auto_is_no_list(cls, value: Any) -> Any:
        return () if value == "auto" else _listed(value)


class ExperienceSettings(Section):
    """What a round is made of, and how much of the swarm's experience is kept."""

    mix: str = Field(
        "4/4", description="I/J: rollouts of a round drawn from the node's own and from the swarm's."
    )
    completions: int = Field(8, ge=2, le=64, description="Completions generated for each question (L, or G).")
    staleness_max: int = Field(
        -1,
        ge=-1,
        le=16,
        description="Most updates between generation and use of an own rollout; -1: 0 if shared, 1 if split.",
    )
    strategy: Literal["uniform", "by-author", "top-total", "first-arrived", "rare-first"] = Field(
        "uniform",
        description="How external rollouts are chosen among the informative ones: uniformly, an author first and then one of its"
        " rollouts, highest sum of rewards first, oldest received first, or rarest successes first;"
        " see [experience](../experience.md).",
    )
    source: Literal["swarm", "own"] = Field(
        "swarm",
        description="Whose rollouts the J are: the swarm's, or (a control for experiments) this node's own older ones, which"
        " come to it as messages like anybody's. Sharing goes on.",
    )
    balance: Literal["fixed", "informative"] = Field(
        "fixed",
        description="`informative`: for each own rollout of a round that teaches nothing, one more external rollout than J of the"
        " mix. Uses up the buffer sooner.",
    )
    dynamic_sampling: int = Field(
        1,
        ge=1,
        le=64,
        description="Most generation batches of I questions for one round: further ones until I own rollouts are informative,"
        " which are then preferred. 1 is off. Costs up to that many times the generation; everything generated is shared.",
    )
    reward_spread_min: float = Field(
        0.05,
        ge=0,
        le=1,
        description="A rollout whose best and worst reward lie less than this apart teaches nothing: its completions all count as"
        " their mean. Dividing by the standard deviation would blow crumbs of partial credit up to full size. Exact rewards, 0 and"
        " 1, know no crumbs. 0 turns it off.",
    )
    uses_max: int = Field(1, ge=1, le=1000, description="How often one external rollout may be trained on.")
    rollouts_max: int = Field(20_000, ge=1, description="Most external rollouts kept.")
    size_bytes_max: int = Field(512 * 2**20, ge=2**20, description="Most bytes of them kept.")
    author_share_max: float = Field(0.25, gt=0, le=1, description="Share of that which one author may hold.")
    age_s_max: int = Field(3600, ge=1, description="External rollouts older than this are not trained on.")

    @field_validator("mix")
    @classmethod
    def _mix_is_two_numbers(cls, value: str) -> str:
        match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", value)
        if not match or not 1 <= int(match[1]) <= QUESTIONS_MAX:
            raise ValueError(
                f"mix is I/J, own and external rollouts a round, for example 4/4; I is 1 to {QUESTIONS_MAX}"
            )
        return value

    @property
    def num_local(self) -> int:
        """I of the mix."""
        return int(self.mix.split("/")[0])

    @property
    def num_external(self) -> int:
        """J of the mix."""
        return int(self.mix.split("/")[1])


class SwarmSettings(Section):
    """Which swarm, and how to reach it."""

    name: str = Field(
        "auto",
        description="An embedded manifest (`tiny`, `reasoning`), a manifest file, or `auto`: by the model.",
    )
    listen: str = Field("/ip4/0.0.0.0/tcp/4810", description="The multiaddr to listen on.")
    announce: str = Field(
        "", description="The one multiaddr told to others, where it differs (port forwarding, containers)."
    )
    bootstrap: tuple[str, ...] = Field((), description="Multiaddrs with /p2p/ of peers to join through.")
    solo: bool = Field(False, description="No network at all: train on own rollouts only.")

    @field_validator("bootstrap", mode="before")
    @classmethod
    def _one_text_is_a_list(cls, value: Any) -> Any:
        return _listed(value)


class QuestionsSettings(Section):
    """The questions that this node asks, and the scoring of completions, other people's included."""

    datasets: tuple[str, ...] = Field(
        (),
        description="The manifest's datasets, by name, whose questions this node asks (`--tasks`), by their weights among"
        " themselves; empty: all. Others' rollouts and the evaluation are on all, whatever stands here.",
    )
    sandbox: Literal["best-effort", "require", "off"] = Field(
        "best-effort",
        description="Lock the scorer's workers down as far as this kernel allows and say in one line how far that is, refuse to"
        " start without every step, or set only the limits on memory and CPU (for measurements).",
    )
    deadline_s: float = Field(
        20.0, gt=0, description="After this a scoring is killed and counts as zero reward."
    )

    @field_validator("sandbox", mode="before")
    @classmethod
    def _auto_has_another_name(cls, value: Any) -> Any:
        if value == "auto":
            raise ValueError("auto is now called best-effort")
        return value

    @field_validator("datasets", mode="before")
    @classmethod
    def _names_are_a_list(cls, value: Any) -> Any:
        return _listed(value)


class TrustSettings(Section):
    """What strangers may do: how an author becomes a proven one, and what new ones may do until then."""

    proven_rollouts: int = Field(
        32,
        ge=1,
        le=100_000,
        description="An author is proven once this many of its rollouts were scored here without a finding of guard or sandbox:"
        " eight batches of 4.",
    )
    unproven_share_max: float = Field(
        0.1,
        ge=0,
        le=1,
        description="Share of a training set that authors who are not proven may have together, rounded down but at least one"
        " rollout; 0: none, 1: no limit.",
    )
    author_share_max: float = Field(
        0.5,
        gt=0,
        le=1,
        description="Share of a round's external rollouts that one author may have, rounded up; an equal part where the buffer"
        " knows too few authors to fill a round. Who shares nothing but informative rollouts would else be most of it; 1 is off.",
    )
    quotas: Literal["on", "off"] = Field(
        "on",
        description="Whether the next four settings limit what an author may use: a proven one by itself, all others together.",
    )
    quota_bytes_per_s: int = Field(
        128 * 1024,
        ge=4096,
        description="Message bytes a second: two of the largest messages. A node of the paper's size (4 questions, 8 answers of 256"
        " tokens) sends about 12 KB every few seconds.",
    )
    quota_tokens_per_s: int = Field(
        32_768,
        ge=4096,
        description="Completion tokens a second, as claimed but at least one for 4 bytes of text: four rounds of the paper's size"
        " (8192 tokens) a second.",
    )
    quota_cpu_ms_per_s: int = Field(
        250,
        ge=1,
        le=64_000,
        description="Milliseconds of scoring a second: a quarter of a core, or 50 batches of `tiny` at 5 ms.",
    )
    quota_burst_s: int = Field(
        40,
        ge=15,
        le=3600,
        description="Seconds of these rates that may come at once: 5 MiB, 1.3 million tokens, 10 s of scoring.",
    )
    bans: Literal["on", "off"] = Field(
        "on",
        description="Whether peers are banned for a time for what no honest one does; `swarmd peers ban` works in any case.",
    )
    ban_points: float = Field(
        100.0,
        gt=0,
        description="Points that get a peer banned: a rejected message handed over is 10, one signed 20, a text that attacked the"
        " scorer 25. The first ban lasts 5 minutes, each further one twice as long, up to a day.",
    )
    ban_half_life_s: float = Field(600.0, ge=1, description="Points halve in this time.")
    canary: Literal["on", "off"] = Field(
        "on",
        description="Measure the policy on held-out questions now and then; when it falls, set aside what came from others since"
        " and go back to the weights before; see [guards](../guards.md). Off where J is 0.",
    )
    canary_rounds: int = Field(20, ge=1, description="Rounds between its measurements.")
    canary_questions: int = Field(
        32, ge=8, le=1024, description="Its questions, one completion each, and four more each when in doubt."
    )
    canary_drop_max: float = Field(
        0.05, gt=0, le=1, description="A fall of the mean reward below its best by less than this is none."
    )
    canary_errors_max: float = Field(
        5.0, ge=1, le=100, description="Nor is one by less than this many standard errors of the difference."
    )


class EvaluateSettings(Section):
    """The held-out evaluation: questions that no node of the swarm trains on."""

    num_questions: int = Field(
        64, ge=0, le=QUESTIONS_MAX, description="Held-out questions; 0 turns the evaluation off."
    )
    completions: int = Field(4, ge=1, le=64, description="Completions for each of them.")
    every_rounds: int = Field(
        100, ge=0, description="Rounds between evaluations; 0: only at the start and the end."
    )


class CheckpointSettings(Section):
    """How often the state is written down, and how much is kept."""

    every_rounds: int = Field(
        1, ge=1, description="Rounds between checkpoints; a crash loses at most so many."
    )
    keep: int = Field(2, ge=1, le=100, description="Checkpoints kept.")


class ControlSettings(Section):
    """Where the node can be looked at."""

    metrics_host: str = Field("127.0.0.1", description="Address of /metrics, /healthz and /readyz.")
    metrics_port: int = Field(9810, ge=0, le=65535, description="Their port; 0 takes a free one.")


class Config(Section):
    """All sections."""

    policy: PolicySettings = PolicySettings()
    update: UpdateSection = UpdateSection()
    experience: ExperienceSettings = ExperienceSettings()
    swarm: SwarmSettings = SwarmSettings()
    questions: QuestionsSettings = QuestionsSettings()
    trust: TrustSettings = TrustSettings()
    evaluate: EvaluateSettings = EvaluateSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    control: ControlSettings = ControlSettings()

    @property
    def num_external(self) -> int:
        """J in force: of the mix, and 0 where nothing comes from anywhere."""
        return self.experience.num_external if self._has_source else 0

    @property
    def balance(self) -> Literal["fixed", "informative"]:
        """The balance in force."""
        return self.experience.balance if self._has_source else "fixed"

    @property
    def num_external_max(self) -> int:
        """The most external rollouts that a round may ask for."""
        return self.num_external + (self.experience.num_local if self.balance == "informative" else 0)

    @property
    def _has_source(self) -> bool:
        return not self.swarm.solo or self.experience.source == "own"


def known_keys() -> list[str]:
    """Every `section.key`."""
    return [
        f"{section}.{key}"
        for section, field in Config.model_fields.items()
        for key in field.annotation.model_fields  # type: ignore[union-attr]
    ]
