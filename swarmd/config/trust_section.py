"""Settings of what strangers may do, and of what guards the policy against them."""

from typing import Literal

from pydantic import Field, field_validator

from swarmd.config.section import Section


class TrustSettings(Section):
    """What strangers may do: how an author becomes a proven one, and what new ones may do until then."""

    proven_rollouts: int = Field(
        32,
        ge=1,
        le=100_000,
        description="An author is proven once its scored rollouts prove as much as so many of this node's own would: those with as"
        " much text and a signal count 1, others less, those without an answer 0; see [trust](../trust.md).",
    )
    unproven_share_max: float = Field(
        0.1,
        ge=0,
        le=1,
        description="Share of a training set that authors who are not proven may have together, rounded down but at least one"
        " rollout; 0: none, 1: no limit.",
    )
    author_parts_max: float = Field(
        1.5,
        ge=0,
        le=1000,
        description="Most equal parts of the external rollouts that one author may be: of ten authors with 1.5, 15 %. Informative"
        " rollouts of the last `experience.age_s_max` seconds count, drawn or not; who sends more of them than that is drawn as if"
        " it had not. All who are not proven count as one author. 0: no limit; nothing between 0 and 1.",
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
        description="Milliseconds of scoring a second: a quarter of a core, or 50 batches of `tiny` at 5 ms. A worker that"
        " idles counts as one that computes.",
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
        description="Measure the policy on held-out questions now and then; when it falls, set aside what is held of the authors"
        " used since, go back to the weights before, and learn alone for a time; see [guards](../guards.md). Off where J is 0.",
    )
    canary_rounds: int = Field(
        20,
        ge=1,
        description="Rounds between its measurements; half as many with others while a fall is remembered.",
    )
    canary_questions: int = Field(
        32, ge=8, le=1024, description="Its questions, one completion each, and four more each when in doubt."
    )
    canary_drop_max: float = Field(
        0.05, gt=0, le=1, description="A fall of the mean reward below its best by less than this is none."
    )
    canary_errors_max: float = Field(
        5.0, ge=1, le=100, description="Nor is one by less than this many standard errors of the difference."
    )

    @field_validator("author_parts_max")
    @classmethod
    def _a_part_is_whole(cls, value: float) -> float:
        if 0 < value < 1:
            raise ValueError("an author may be at least 1 equal part; 0 is no limit")
        return value
