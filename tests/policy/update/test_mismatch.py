"""Engine against trainer: ratios of tokens, and the gauges, by their closed forms."""

import math
from dataclasses import replace

import pytest
import torch

from swarmd.clients.update_stats import UpdateStats
from swarmd.config import Mismatch
from swarmd.policy.update.learner import Learner
from swarmd.policy.update.mismatch import factors, measured, resolve
from swarmd.policy.update.packing import TokenRollout
from tests.policy.settings import config, learner_with
from tests.policy.tiny_models import build, round_of

NAN = math.nan


def test_a_factor_is_the_ratio_up_to_the_cap() -> None:
    log_ratios = torch.tensor([0.0, math.log(2.0), math.log(5.0), -1.0, NAN, 1e4, -1e4], dtype=torch.float64)
    assert factors(log_ratios, 3.0).tolist() == pytest.approx([1, 2, 3, math.exp(-1), 1, 3, 0])


def test_gauges_of_known_ratios() -> None:
    log_ratios = torch.tensor([0.0] * 98 + [math.log(2.0), math.log(4.0)])
    found = measured(UpdateStats(), log_ratios, 0.25)
    assert found.mismatch_ratio_mean == pytest.approx(1.04)
    assert found.mismatch_ratio_p99 == pytest.approx(2.0)
    assert found.mismatch_ratio_max == pytest.approx(4.0)
    assert found.mismatch_cut == 0.25


def test_gauges_of_nothing_and_of_a_broken_engine() -> None:
    assert measured(UpdateStats(), torch.tensor([]), 0.0) == UpdateStats()
    mean = measured(UpdateStats(), torch.tensor([1e30, -math.inf]), 0.0).mismatch_ratio_mean
    assert mean is not None
    assert math.isfinite(mean)


@pytest.mark.parametrize(
    ("wanted", "own_forward", "found"),
    [
        ("auto", True, "token"),
        ("auto", False, "off"),
        ("off", True, "off"),
        ("token", False, "token"),
    ],
)
def test_auto_asks_whether_the_engine_computes_by_itself(
    wanted: Mismatch, own_forward: bool, found: str
) -> None:
    resolved = resolve(config(mismatch=wanted, epochs=3), own_forward=own_forward)
    assert resolved == config(mismatch=found, epochs=3)


# Through the learner.


def sampled(rollouts: list[TokenRollout], learner: Learner, *shifts: float) -> list[TokenRollout]:
    """Own completions as an engine measured them that is off by one of `shifts`, in turn; the policy's ratio is its opposite."""
    result = []
    for rollout, logps_G in zip(rollouts, learner.log_probs(rollouts), strict=True):
        completions = tuple(
            completion
            if rollout.external
            else replace(completion, engine_logps_T=tuple(logp + shifts[n % len(shifts)] for logp in logps))
            for n, (completion, logps) in enumerate(zip(rollout.completions, logps_G, strict=True))
        )
        result.append(replace(rollout, completions=completions))
    return result


def learner_under(mismatch: Mismatch, kind: type[Learner] = Learner) -> Learner:
    return learner_with(build(), learning_rate=1e-4, mismatch=mismatch, kind=kind)


@pytest.mark.parametrize(("mismatch", "cut"), [("off", 0.0), ("auto", 0.0), ("token", 1.0)])
def test_the_gap_is_measured_whatever_is_done_about_it(mismatch: Mismatch, cut: float) -> None:
    learner = learner_under(mismatch)
    stats = learner.update(sampled(round_of(), learner, -math.log(4.0)))
    assert stats.mismatch_ratio_mean == pytest.approx(4.0, rel=1e-4)
    assert stats.mismatch_ratio_max == pytest.approx(4.0, rel=1e-4)
    assert stats.mismatch_cut == cut


def test_an_engine_that_measured_nothing_is_not_measured() -> None:
    stats = learner_under("token").update(round_of())
    assert (stats.mismatch_ratio_mean, stats.mismatch_cut) == (None, None)
