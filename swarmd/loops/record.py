"""The record of a round and of an evaluation in files and documents, and the same figures in metrics.

Keys that begin with `seconds` are measured time. All others follow from the seeds and from what the node was given, so a
simulation repeats them bit for bit. docs/reference/rounds.md says what each key means.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TypedDict, TypeVar

from swarmd.clients.policy import Updated
from swarmd.clients.update_stats import UpdateStats
from swarmd.experience.buffer import Sample
from swarmd.experience.own import OwnExperience
from swarmd.experience.rollouts import ScoredRollout
from swarmd.metrics import Metrics
from swarmd.protocol.manifest import Manifest
from swarmd.protocol.signing import peer_id_of

T = TypeVar("T")


@dataclass(frozen=True)
class Drawn:
    """A round's experience, own and external: each field is a key of the round's record."""

    reward_own: float
    reward_external: float | None
    reward_training: float
    num_generated: int
    num_generated_informative: int
    num_generated_tokens: int
    num_own: int
    num_own_informative: int
    num_external: int
    external_age_s: float | None
    shortfall: int
    num_over_age: int
    num_unproven: int
    num_held_back: int
    num_authors: int
    num_authors_out: int
    num_pool: int
    num_pool_informative: int
    used_by_author: dict[str, int]
    staleness: int
    seconds_generate: float


@dataclass(frozen=True)
class Round:
    """One round. `to_record` makes a line of `rounds.jsonl`. `rejected`, `num_shared` and `num_received` are totals so far."""

    number: int
    time_ms: int
    drawn: Drawn
    updated: Updated
    rejected: int = 0
    num_shared: int = 0
    num_received: int = 0

    def to_record(self) -> dict[str, object]:
        """All figures by key. Most of the update's are missing where its process died after its checkpoint."""
        return {
            "round": self.number,
            "time_ms": self.time_ms,
            **asdict(self.drawn),
            "rejected": self.rejected,
            "num_shared": self.num_shared,
            "num_received": self.num_received,
            **{key: finite_or_none(value) for key, value in self.updated.to_record().items()},
        }


class EvaluationRecord(TypedDict):
    """A line of `evaluations.jsonl`; `by_dataset` has the mean reward and the number of questions of each dataset name."""

    round: int
    time_ms: int
    mean: float
    standard_error: float
    num_questions: int
    num_completions: int
    by_dataset: dict[str, tuple[float, int]]


def drawn(own: OwnExperience, sample: Sample, *, drawn_ms: int, policy_version: int) -> Drawn:
    """The round's experience, own and external.

    `drawn_ms` is when the external rollouts were drawn, `policy_version` the version that the round began with.
    """
    fresh, external = own.fresh, sample.rollouts
    ages_s = [max(0, drawn_ms - rollout.created_ms) / 1000 for rollout in external]
    return Drawn(
        reward_own=fresh.reward,
        reward_external=finite_or_none(mean([mean(rollout.rewards_G) for rollout in external])),
        reward_training=mean(_rewards([*own.rollouts, *external])),
        num_generated=fresh.num_questions,
        num_generated_informative=fresh.num_informative,
        num_generated_tokens=fresh.num_tokens,
        num_own=len(own.rollouts),
        num_own_informative=own.num_informative,
        num_external=len(external),
        external_age_s=finite_or_none(mean(ages_s)),
        shortfall=sample.shortfall,
        num_over_age=sample.num_over_age,
        num_unproven=sample.num_unproven,
        num_held_back=sample.num_held_back,
        num_authors=sample.num_authors,
        num_authors_out=sample.num_authors_out,
        num_pool=sample.num_pool,
        num_pool_informative=sample.num_informative_pool,
        used_by_author=dict(Counter(peer_id_of(rollout.author) for rollout in external)),
        staleness=max(policy_version - rollout.policy_version for rollout in own.rollouts),
        seconds_generate=fresh.seconds,
    )


def count_round(
    metrics: Metrics, manifest: Manifest, done: Round, own: OwnExperience, sample: Sample
) -> None:
    """Count a round that is done. Means over own rollouts are of all that were generated, kept or not."""
    num_own, num_external = len(own.rollouts), len(sample.rollouts)
    num_wanted = num_external + sample.shortfall
    metrics.rounds.inc()
    metrics.last_step.set(done.time_ms / 1000)
    metrics.sample_shortfall.inc(sample.shortfall)
    metrics.state_damaged.labels("rollout").inc(sample.num_damaged)
    metrics.sample_over_age.set(sample.num_over_age)
    metrics.generate_staleness.set(done.drawn.staleness)
    metrics.external_ratio.set(num_external / (num_own + num_external))
    metrics.external_target.set(num_wanted / (num_own + num_wanted))
    names = [dataset.name for dataset in manifest.datasets]
    for origin, rollouts in (("local", own.rollouts), ("external", sample.rollouts)):
        for rollout in rollouts:
            metrics.samples.labels(origin, names[rollout.dataset]).inc()
    fresh = own.fresh
    made = [
        (names[d], mean(list(rewards_G)))
        for d, rewards_G in zip(fresh.datasets_R, fresh.rewards_RG, strict=True)
    ]
    used = [(names[rollout.dataset], mean(rollout.rewards_G)) for rollout in sample.rollouts]
    for origin, named in (("local", made), ("external", used)):
        for name in {name for name, _ in named}:
            metrics.reward_mean.labels(name, origin).set(mean([reward for at, reward in named if at == name]))
    metrics.informative_ratio.labels("local").set(fresh.num_informative / fresh.num_questions)
    if sample.rollouts:
        num_informative = sum(rollout.informative for rollout in sample.rollouts)
        metrics.informative_ratio.labels("external").set(num_informative / num_external)
    metrics.unproven.inc(sample.num_unproven)
    metrics.held_back.inc(sample.num_held_back)
    _count_update(metrics, done.updated)


def _count_update(metrics: Metrics, updated: Updated) -> None:
    stats = updated.stats or UpdateStats()
    metrics.step_seconds.observe(updated.seconds)
    metrics.tokens.labels("local").inc(stats.num_tokens_local)
    metrics.tokens.labels("external").inc(stats.num_tokens_external)
    if stats.skipped:
        metrics.skipped.labels(stats.skipped).inc()
    else:
        metrics.steps.inc()
    metrics.external_dropped.inc(stats.num_external_dropped)
    metrics.external_capped.inc(stats.num_external_capped)
    for key, figure in metrics.of_update.items() if updated.stats else ():
        if (value := finite_or_none(getattr(stats, key))) is not None:
            figure.set(value)


def mean(values: list[float]) -> float:
    """The mean, or NaN of nothing."""
    return math.fsum(values) / len(values) if values else math.nan


def finite_or_none(value: T) -> T | None:
    """JSON has no NaN and no infinity; anything else stays as it is."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _rewards(rollouts: Iterable[ScoredRollout]) -> list[float]:
    return [reward for rollout in rollouts for reward in rollout.rewards_G]
