"""The engine's log-probs reach the update as they were measured, agree with the trainer's, and stay in this node."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from swarmd.experience.rollouts import ScoredRollout
from swarmd.policy.service import PolicyService
from tests.policy.services import rollout, scored, started


def round_of_own(policy: PolicyService, temperature: float) -> list[ScoredRollout]:
    prompts = ["one?", "one and two?", "2 + 2"]
    rows = policy.generate(prompts, 8, temperature, 16, 3).completions_RG
    return [
        rollout(
            prompt,
            [scored(c, float(n % 2)) for n, c in enumerate(row)],
            counter=counter,
        )
        for counter, (prompt, row) in enumerate(zip(prompts, rows, strict=True))
    ]


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("mismatch", ["off", "token"])
def test_mean_ratio_is_one_at_the_sampling_temperature(
    model_dir: Path, temperature: float, mismatch: str
) -> None:
    policy = started(model_dir, temperature=temperature, mismatch=mismatch)
    stats = policy.update(round_of_own(policy, temperature), round=1, state={}, save="no").to_record()
    assert stats["mismatch_ratio_mean"] == pytest.approx(1.0, abs=0.01)
    assert stats["mismatch_ratio_max"] == pytest.approx(1.0, abs=0.01)
    assert stats["mismatch_cut"] == 0


def test_another_temperature_would_be_seen(model_dir: Path) -> None:
    policy = started(model_dir, temperature=1.0)
    stats = policy.update(round_of_own(policy, 0.6), round=1, state={}, save="no").to_record()
    assert abs(stats["mismatch_ratio_mean"] - 1) > 0.01


def test_an_update_in_between_is_seen_in_the_ratio(model_dir: Path) -> None:
    policy = started(model_dir)
    stale = round_of_own(policy, 1.0)
    policy.update(round_of_own(policy, 1.0), round=1, state={}, save="no")
    stats = policy.update(stale, round=2, state={}, save="no").to_record()
    assert stats["mismatch_ratio_max"] > 1.01


@pytest.mark.parametrize(
    ("roles", "chosen"), [(("generate", "update"), "off"), (("update",), "token"), (("generate",), None)]
)
def test_auto_is_resolved_by_whose_weights_the_engine_has(
    model_dir: Path, roles: tuple[str, ...], chosen: str | None
) -> None:
    assert started(model_dir, roles=roles).about().mismatch == chosen


@pytest.mark.parametrize("spoil", [[math.nan], [-math.inf], [-0.1]])
def test_a_measurement_that_is_none_is_left_out(model_dir: Path, spoil: list[float]) -> None:
    policy = started(model_dir, mismatch="token")
    own = round_of_own(policy, 1.0)[0]
    completions = []
    for c in own.completions:
        assert c.token_ids is not None
        assert c.token_logps is not None
        logps = (*spoil, *c.token_logps)[: len(c.token_ids)]
        completions.append(replace(c, token_logps=logps[:-1] if spoil == [-0.1] else logps))
    stats = policy.update(
        [replace(own, completions=tuple(completions))], round=1, state={}, save="no"
    ).to_record()
    assert (stats["skipped"], stats["mismatch_ratio_mean"]) == (None, None)
