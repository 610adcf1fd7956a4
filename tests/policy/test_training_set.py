"""Scored rollouts to token rollouts: which claims are kept, and what an own completion has measured."""

from pathlib import Path
from typing import Any

import pytest

from swarmd.experience.rollouts import ScoredCompletion, ScoredRollout
from swarmd.policy.model.loading import load_tokeniser
from swarmd.policy.training_set import token_rollouts
from swarmd.policy.update.packing import TokenCompletion, TokenRollout
from tests.policy.settings import config

LONG = "one two " * 50


def rollout_of(
    model_dir: Path, completions: list[ScoredCompletion], *, external: bool = True, **settings: Any
) -> TokenRollout:
    scored = ScoredRollout(b"b" * 32, 0, 0, "one?", tuple(completions), 0, 0, external)
    options = config(**{"tokens_max": 12, **settings})
    (found,) = token_rollouts([scored], load_tokeniser(model_dir), options, 256)
    return found


def claiming(
    model_dir: Path, text: str, logprob_sum: float | None, num_tokens: int | None
) -> TokenCompletion:
    made = ScoredCompletion(text, True, 0.0, logprob_sum=logprob_sum, num_tokens=num_tokens)
    return rollout_of(model_dir, [made, ScoredCompletion("4", True, 1.0)]).completions[0]


def test_a_claim_is_taken_over_our_own_tokens(model_dir: Path) -> None:
    found = claiming(model_dir, "three", -6.0, 99)
    assert found.claimed_logp == pytest.approx(-6.0 / len(found.ids))


def test_a_claim_on_a_text_that_we_cut_is_the_senders_mean(model_dir: Path) -> None:
    found = claiming(model_dir, LONG, -60.0, 120)
    assert (len(found.ids), found.claimed_logp) == (12, -0.5)


def test_a_text_that_just_fits_was_not_cut(model_dir: Path) -> None:
    text = "a"
    while len(claiming(model_dir, text, -6.0, 99).ids) < 12:
        text += "a"
    found = claiming(model_dir, text, -6.0, 99)
    assert (found.finished, found.claimed_logp) == (True, -0.5)


@pytest.mark.parametrize(
    ("external", "reward_of_long", "num_left"), [(True, 1.0, 0), (True, 0.0, 2), (False, 1.0, 2)]
)
def test_an_answer_behind_the_cut_is_not_paid_for_what_stands_before_it(
    model_dir: Path, external: bool, reward_of_long: float, num_left: int
) -> None:
    made = [ScoredCompletion(LONG, True, reward_of_long), ScoredCompletion("4", True, 1.0 - reward_of_long)]
    assert len(rollout_of(model_dir, made, external=external).completions) == num_left


def test_without_a_claim_there_is_none(model_dir: Path) -> None:
    assert claiming(model_dir, "three", None, 3).claimed_logp is None


def test_an_own_completion_claims_nothing_and_measures(model_dir: Path) -> None:
    own = ScoredCompletion("?", True, 1.0, (7, 8, 2), -1.5, 3, (-0.5, -0.25, -0.75))
    found = rollout_of(model_dir, [own, ScoredCompletion("4", True, 0.0)], external=False).completions
    assert (found[0].claimed_logp, found[0].engine_logps_T) == (None, (-0.5, -0.25, -0.75))
    assert found[1].engine_logps_T is None
