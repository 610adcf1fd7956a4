"""Every setting of a node, its bounds, its default and its meaning: frozen sections named like the rooms.

The descriptions are the reference manual; `docs/reference/config.md` is generated from them.
"""

import re
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from swarmd.config.model_sections import (
    LEARNING_RATE,
    TINY,
    TINY_LEARNING_RATE,
    PolicySettings,
    UpdateSection,
)
from swarmd.config.network_section import NetworkLimits
from swarmd.config.section import Listed, Section
from swarmd.config.trust_section import TrustSettings

# The scorer takes this many questions at once (`swarmd.questions.service.ITEMS_MAX`).
QUESTIONS_MAX = 4096


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
    source: Literal["swarm", "own"] = Field(
        "swarm",
        description="Whose rollouts the J are: the swarm's, or (a control for experiments) this node's own older ones, which"
        " come to it as messages like anybody's. Sharing goes on.",
    )
    dynamic_sampling: int = Field(
        1,
        ge=1,
        le=64,
        description="Most generations of I questions for one round: further ones until I own rollouts are informative,"
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
        description="An embedded manifest (`tiny`, `reasoning`, `reasoning-paper`), a manifest file, or `auto`: by the model.",
    )
    listen: str = Field("/ip4/0.0.0.0/tcp/4810", description="The multiaddr to listen on.")
    announce: str = Field(
        "", description="The one multiaddr told to others, where it differs (port forwarding, containers)."
    )
    bootstrap: Listed = Field((), description="Multiaddrs with /p2p/ of peers to join through.")
    local_discovery: bool = Field(
        True,
        description="Find nodes of the same swarm in the local network, and be found there (multicast DNS). Never on loopback.",
    )
    solo: bool = Field(False, description="No network at all: train on own rollouts only.")


class QuestionsSettings(Section):
    """The questions that this node asks, and the scoring of completions, other people's included."""

    datasets: Listed = Field(
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
        20.0,
        gt=0,
        description="After this a scoring is killed: own answers count as zero reward, other people's are dropped, and have far"
        " less time (see [trust](../trust.md)).",
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

    every_rounds: int = Field(1, ge=1, description="At least so many rounds from one checkpoint to the next.")
    interval_s: float = Field(
        -1.0,
        ge=-1,
        description="Seconds from one checkpoint to the next; a crash loses at most the rounds since the last. 0: in every round"
        " (of `every_rounds`), and training waits for the disk. -1: 0 for checkpoints up to 64 MiB, such as those of `tiny`, else"
        " 900, written in the background. A round that the canary found good gets one from two thirds of it on.",
    )
    gb_per_day_max: float = Field(
        1000.0,
        ge=0,
        description="Most gigabytes of checkpoints a day; the interval grows until they keep to it. 0: no limit.",
    )
    keep: int = Field(2, ge=1, le=100, description="Checkpoints kept.")


class ControlSettings(Section):
    """Where the node can be looked at."""

    metrics_host: str = Field("127.0.0.1", description="Address of /metrics, /healthz and /readyz.")
    metrics_port: int = Field(9810, ge=0, le=65535, description="Their port; 0 takes a free one.")


class Config(Section):
    """All sections. Where 0 stands for the model's own default, a `Config` holds that default: no reader ever meets the 0."""

    policy: PolicySettings = PolicySettings()
    update: UpdateSection = UpdateSection()
    experience: ExperienceSettings = ExperienceSettings()
    swarm: SwarmSettings = SwarmSettings()
    limits: NetworkLimits = NetworkLimits()
    questions: QuestionsSettings = QuestionsSettings()
    trust: TrustSettings = TrustSettings()
    evaluate: EvaluateSettings = EvaluateSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    control: ControlSettings = ControlSettings()

    @field_validator("update")
    @classmethod
    def _own_learning_rate(cls, value: UpdateSection, info: ValidationInfo) -> UpdateSection:
        policy = info.data.get("policy")  # absent where it is not valid itself
        if value.learning_rate or policy is None:
            return value
        return value.model_copy(
            update={"learning_rate": TINY_LEARNING_RATE if policy.model == TINY else LEARNING_RATE}
        )

    @property
    def num_external(self) -> int:
        """J in force: of the mix, and 0 where nothing comes from anywhere."""
        has_source = not self.swarm.solo or self.experience.source == "own"
        return self.experience.num_external if has_source else 0


def known_keys() -> list[str]:
    """Every `section.key`."""
    return [
        f"{section}.{key}"
        for section, field in Config.model_fields.items()
        for key in field.annotation.model_fields  # type: ignore[union-attr]
    ]
