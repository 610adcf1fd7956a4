"""Weighted rounds against a plain implementation: loss and every gradient, and which completions are forwarded for them."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from swarmd.policy.update import learner as learner_module
from swarmd.policy.update.learner import Learner
from swarmd.policy.update.packing import TokenRollout
from swarmd.policy.update.prepass import Wanted
from swarmd.policy.update.self_check import SelfCheck
from tests.policy import plain_reference
from tests.policy.settings import learner_with
from tests.policy.tiny_models import build, round_of

WEIGHTINGS = ("as-own", "positive", "tapered")
FLOOR = -6.5  # random models of this size give a token about that: some completions lie on either side


def described(rollouts: Sequence[TokenRollout]) -> list[TokenRollout]:
    """With claims near and far, and an engine that was a little off."""
    rng, model, result = random.Random(4), build(), []
    for rollout in rollouts:
        completions = []
        for number, (completion, mean) in enumerate(
            zip(rollout.completions, plain_reference.mean_log_probs(model, rollout), strict=True)
        ):
            claimed = None if number == 0 else mean + rng.uniform(-0.3, 0.3)
            engine = tuple(mean + rng.gauss(0, 0.6) for _ in completion.ids)
            completions.append(
                replace(completion, claimed_logp=claimed)
                if rollout.external
                else replace(completion, engine_logps_T=None if number == 0 else engine)
            )
        result.append(replace(rollout, completions=tuple(completions)))
    return result


def difference(*, off_policy: bool = False, **options: Any) -> float:
    model = build()
    rollouts = described(round_of(num_local=3, num_external=3))
    if off_policy:
        rollouts = plain_reference.off_policy(model, rollouts)
    options = {"external_logp_floor": FLOOR, **options}
    wanted_loss, wanted = plain_reference.weighted_loss_and_gradients(model, rollouts, **options)
    loss, found = learner_with(model, **options).gradients(rollouts)
    return max(abs(loss - wanted_loss) / abs(wanted_loss), plain_reference.worst_difference(found, wanted))


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("off_policy", [False, True])
def test_every_weighting_agrees(weighting: str, off_policy: bool) -> None:
    assert difference(external_weighting=weighting, off_policy=off_policy) < 1e-5


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_every_weighting_agrees_on_the_plain_path(monkeypatch: pytest.MonkeyPatch, weighting: str) -> None:
    monkeypatch.setattr(learner_module, "check_packed_pass", lambda *_: SelfCheck(False, "off"))
    assert difference(external_weighting=weighting, temperature=0.7) < 1e-5


@pytest.mark.parametrize(
    "options",
    [
        {"external_weighting": "tapered", "external_logp_floor": -20.0},
    ],
)
def test_their_numbers_count(options: dict[str, Any]) -> None:
    assert difference(**options) < 1e-5


@pytest.mark.parametrize("off_policy", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"mismatch": "token"},
        {"mismatch": "token", "mismatch_cap": 1.1},
        {"mismatch": "token", "external_weighting": "tapered"},
    ],
)
def test_every_mismatch_correction_agrees(options: dict[str, Any], off_policy: bool) -> None:
    assert difference(off_policy=off_policy, **options) < 1e-5


def test_the_examples_are_not_trivial() -> None:
    """Each option's gradient differs from the default's, so that the tests above could fail."""
    rollouts = described(round_of(num_local=3, num_external=3))
    plain = learner_with(build()).gradients(rollouts)[1]
    for options in (
        *({"external_weighting": weighting} for weighting in WEIGHTINGS[1:]),
        {"mismatch": "token"},
    ):
        other = learner_with(build(), **{"external_logp_floor": FLOOR, **options}).gradients(rollouts)[1]
        assert plain_reference.worst_difference(other, plain) > 1e-2, options


# What the passes cost.


class Counted(Learner):
    """Notes which completions `log_probs` forwards."""

    def log_probs(self, rollouts: Sequence[TokenRollout], wanted: Wanted) -> list[list[tuple[float, ...]]]:
        asked = [c for rollout in rollouts for c in rollout.completions if wanted(rollout, c)]
        self.asked = [*self.asked, *asked]
        return super().log_probs(rollouts, wanted)

    asked: Sequence[Any] = ()


@pytest.mark.parametrize("weighting", ["as-own", "positive"])
@pytest.mark.parametrize("mismatch", ["off", "token"])
def test_most_options_need_no_pass_before_the_step(weighting: str, mismatch: str) -> None:
    learner = learner_with(build(), external_weighting=weighting, mismatch=mismatch, kind=Counted)
    learner.update(described(round_of()))
    assert not learner.asked


def test_tapered_asks_about_negative_externals_only() -> None:
    learner, rollouts = (
        learner_with(build(), external_weighting="tapered", kind=Counted),
        described(round_of()),
    )
    learner.update(rollouts)
    assert learner.asked == [c for r in rollouts[2:] for c in r.completions if c.advantage < 0]


def test_with_several_steps_the_old_log_probs_are_asked_for_once() -> None:
    options = {"external_weighting": "tapered", "epochs": 2}
    learner, rollouts = learner_with(build(), kind=Counted, **options), described(round_of())
    learner.update(rollouts)
    assert len(learner.asked) == sum(len(r.completions) for r in rollouts)


def test_later_steps_keep_the_weights_of_the_first() -> None:
    """Two epochs at a tiny rate and two at a large one weigh alike, although the policy has moved in between."""
    stats = [
        learner_with(
            build(), external_weighting="tapered", external_logp_floor=FLOOR, epochs=2, learning_rate=rate
        ).update(described(round_of()))
        for rate in (1e-9, 1e-2)
    ]
    assert stats[0].external_weight_mean == pytest.approx(stats[1].external_weight_mean, rel=1e-5)
    assert stats[0].mean_logp_external != pytest.approx(stats[1].mean_logp_external, rel=1e-3)


# What is reported.


def reported(weighting: str, **others: Any) -> Any:
    learner = learner_with(build(), external_weighting=weighting, **others)
    return learner.update(described(round_of(num_local=2, num_external=3)))


def test_as_own_reports_weights_of_one() -> None:
    stats = reported("as-own")
    assert (stats.external_weight_mean, stats.external_weight_zero) == (1, 0)
    assert stats.external_likelihood_ratio is None


def test_positive_reports_the_share_that_it_drops() -> None:
    stats = reported("positive")
    assert stats.external_weight_mean == 1 - stats.external_weight_zero
    assert 0 < stats.external_weight_zero < 1


def test_ratios_are_reported_where_claims_were_compared() -> None:
    assert 0.7 < reported("tapered").external_likelihood_ratio < 1.4


def test_a_round_of_own_rollouts_reports_no_weights() -> None:
    stats = learner_with(build()).update(described(round_of(num_external=0)))
    assert (stats.external_weight_mean, stats.external_weight_zero) == (None, None)


def test_a_round_whose_weights_are_all_zero_is_skipped() -> None:
    rollouts = [
        replace(r, completions=tuple(replace(c, advantage=-1.0) for c in r.completions))
        for r in round_of(num_local=0)
    ]
    stats = learner_with(build(), external_weighting="positive").update(rollouts)
    assert (stats.skipped, stats.num_steps, stats.external_weight_zero) == ("zero_advantage", 0, 1.0)


def test_a_last_minibatch_without_signal_ends_nothing() -> None:
    silent = replace(round_of()[0], completions=(replace(round_of()[0].completions[0], advantage=0.0),))
    stats = learner_with(build(), minibatches=2).update([round_of()[1], silent])
    assert (stats.skipped, stats.num_steps) == (None, 1)
