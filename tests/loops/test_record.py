"""A round's record: fresh experience and training set told apart, figures that hold for what they say they are of."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from swarmd.experience.buffer import Sample
from swarmd.experience.own import OwnExperience
from swarmd.experience.rollouts import ScoredCompletion, ScoredRollout
from swarmd.loops.record import drawn
from tests.loops.fakes import BAD, GOOD, MS
from tests.loops.parts import ME, Loops, external_rollout, own_batch

NOTHING = Sample([], 0, 0, 0)


def own(*rewards_RG: tuple[float, ...], num_kept: int, version: int = 0) -> OwnExperience:
    rollouts = [
        ScoredRollout(
            ME.public_key,
            number % 2,
            number,
            "q",
            tuple(ScoredCompletion(GOOD if reward else BAD, True, reward, (1,)) for reward in rewards_G),
            MS,
            version,
            external=False,
        )
        for number, rewards_G in enumerate(rewards_RG)
    ]
    return OwnExperience.of(rollouts, num_kept=num_kept, num_tokens=40, seconds=2.5)


def record(experience: OwnExperience, sample: Sample = NOTHING, **changes: Any) -> dict[str, Any]:
    return asdict(drawn(experience, sample, **{"drawn_ms": MS, "policy_version": 3, **changes}))


def test_the_own_reward_is_fresh_and_the_training_reward_is_of_what_is_trained_on() -> None:
    told = record(own((0.0, 0.0), (1.0, 0.0), (0.0, 0.0), (1.0, 1.0), num_kept=1))
    assert (told["reward_own"], told["reward_training"], told["reward_external"]) == (0.375, 0.5, None)
    assert (told["num_own"], told["num_own_informative"]) == (1, 1)
    assert (told["num_generated"], told["num_generated_informative"]) == (4, 1)
    assert (told["num_generated_tokens"], told["seconds_generate"]) == (40, 2.5)


def test_external_completions_are_in_the_training_reward_and_in_no_fresh_one() -> None:
    right = tuple(ScoredCompletion(GOOD, True, 1.0) for _ in range(6))
    sample = Sample([replace(external_rollout(), completions=right)], 1, 1, 0)
    told = record(own((0.0, 0.0), num_kept=1), sample)
    assert (told["reward_own"], told["reward_external"], told["reward_training"]) == (0.0, 1.0, 0.75)


def test_the_age_of_externals_is_their_mean_and_a_clock_ahead_makes_none_negative() -> None:
    sample = Sample(
        [replace(external_rollout(n), created_ms=MS + ahead) for n, ahead in enumerate((-9000, 60_000))],
        2,
        2,
        0,
    )
    assert record(own((1.0, 0.0), num_kept=1), sample)["external_age_s"] == 4.5


def test_without_externals_they_have_no_age() -> None:
    told = record(own((1.0, 0.0), num_kept=1))
    assert told["external_age_s"] is None
    json.dumps(told, allow_nan=False)


def test_staleness_is_that_of_the_stalest_kept() -> None:
    assert record(own((1.0, 0.0), num_kept=1, version=1))["staleness"] == 2


async def test_means_of_own_rollouts_are_shown_of_all_that_were_generated() -> None:
    loops = Loops()
    await loops.update().once(own((0.0, 0.0), (1.0, 0.0), (0.0, 0.0), (1.0, 1.0), num_kept=1))
    first, second = (dataset.name for dataset in loops.manifest.datasets[:2])
    assert loops.count("reward_mean", task=first, origin="local") == 0.0
    assert loops.count("reward_mean", task=second, origin="local") == 0.75
    assert loops.count("reward_informative_ratio", origin="local") == 0.25
    assert loops.count("train_samples_total", task=second, origin="local") == 1


async def test_a_generated_batch_reaches_its_rounds_record_with_its_cost() -> None:
    loops = Loops()
    await loops.generate().once()
    taken = await loops.progress.take_own()
    assert taken is not None
    await loops.update().once(taken)
    (told,) = loops.records
    assert (told["num_generated"], told["num_generated_tokens"], told["seconds_generate"]) == (4, 16, 0.5)
    assert (told["reward_own"], told["reward_training"]) == (0.5, 0.5)


@pytest.mark.parametrize("key", ["num_tokens_local", "num_tokens_external", "seconds"])
async def test_what_the_update_measured_is_in_the_record_too(key: str) -> None:
    loops = Loops()
    await loops.update().once(own((1.0, 0.0), num_kept=1))
    assert loops.records[0][key] is not None


async def test_what_the_guards_of_an_update_did_is_counted() -> None:
    loops = Loops()
    loops.learner.stats = {
        "num_external_dropped": 3,
        "num_external_capped": 2,
        "external_logp_min": -4.5,
        "external_token_logp_min": -11.5,
        "external_share": 0.6,
    }
    for _ in range(2):
        loops.progress.put_own(own_batch(loops.learner.version))
        await loops.update(rounds_max=loops.progress.round + 1).run()
    assert loops.count("train_external_dropped_total") == 6
    assert loops.count("train_external_capped_total") == 4
    assert loops.count("train_external_logp_min", of="mean") == -4.5
    assert loops.count("train_external_logp_min", of="token") == -11.5
    assert loops.count("train_external_weight_share_ratio") == 0.6
