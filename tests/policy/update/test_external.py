"""Weights of external completions: each option's closed form, and claims that no claim can make worth more than honesty."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmd.config.model_sections import Weighting
from swarmd.policy.update.external import claimed_logp, mean_shown_ratio, weight
from swarmd.policy.update.packing import TokenCompletion
from tests.policy.settings import config

anything = st.floats() | st.none()


def weigh(
    kind: Weighting,
    advantage: float,
    *,
    own: float | None = None,
    claimed: float | None = None,
    **settings: float,
) -> float:
    completion = TokenCompletion((1, 2), advantage, claimed_logp=claimed)
    chosen = config(**{"external_weighting": kind, **settings})
    return weight(completion, own, chosen.update)


@pytest.mark.parametrize("advantage", [-2.0, 0.5])
def test_as_own_leaves_completions_alone(advantage: float) -> None:
    assert weigh("as-own", advantage, own=-9.0, claimed=-1.0) == 1


def test_positive_counts_what_was_better_than_the_mean() -> None:
    assert [weigh("positive", a) for a in (1.0, 1e-9, 0.0, -1e-9)] == [1, 1, 0, 0]


@pytest.mark.parametrize(
    ("advantage", "own", "claimed", "wanted"),
    [
        (1.0, None, -1.0, 1.0),  # good ones count whole, whatever the policy thinks of them
        (-1.0, -3.0, -1.0, math.exp(-2.0)),
        (-1.0, -1.0, -3.0, 1.0),  # more likely here than there: no more than 1
        (-1.0, -3.9, None, 1.0),  # no claim: above the floor of -4
        (-1.0, -4.1, None, 0.0),
        (-1.0, -4.1, -9.0, 0.0),  # below it no claim helps
        (-1.0, None, None, 0.0),
    ],
)
def test_tapered(advantage: float, own: float | None, claimed: float | None, wanted: float) -> None:
    assert weigh("tapered", advantage, own=own, claimed=claimed) == pytest.approx(wanted)


def test_the_floor_of_tapered_is_a_setting() -> None:
    assert weigh("tapered", -1.0, own=-4.1, external_logp_floor=-5.0) == 1


# Claims.


def test_the_claim_is_the_texts_log_prob_over_our_tokens() -> None:
    # a sender whose tokenizer needs four times as many tokens for the text, and finds it as likely as one of ours would
    assert claimed_logp(-6.0, 12, num_own_tokens=3, whole=True) == -2.0


def test_for_a_part_of_the_text_the_senders_own_mean_stands_in() -> None:
    assert claimed_logp(-6.0, 12, num_own_tokens=3, whole=False) == -0.5


@pytest.mark.parametrize(
    ("logprob_sum", "num_tokens"),
    [(None, 3), (-1.0, None), (-1.0, 0), (-1.0, -4), (math.nan, 3), (-math.inf, 3), (math.inf, 3)],
)
def test_a_claim_that_is_none_is_none(logprob_sum: float | None, num_tokens: int | None) -> None:
    assert claimed_logp(logprob_sum, num_tokens, num_own_tokens=3, whole=True) is None


def test_a_positive_sum_reads_as_zero() -> None:
    assert claimed_logp(5.0, 3, num_own_tokens=3, whole=True) == 0.0


@given(
    kind=st.sampled_from(["as-own", "positive", "tapered"]),
    advantage=st.floats(-10, 10),
    logprob_sum=anything,
    num_tokens=st.none() | st.integers(-(2**70), 2**70),
    num_own_tokens=st.integers(0, 10_000),
    whole=st.booleans(),
    own=st.none() | st.floats(max_value=0.0) | st.just(math.nan),
)
def test_no_claim_whatever_earns_more_than_one(
    kind: Weighting,
    advantage: float,
    logprob_sum: float | None,
    num_tokens: int | None,
    num_own_tokens: int,
    whole: bool,
    own: float | None,
) -> None:
    claimed = claimed_logp(logprob_sum, num_tokens, num_own_tokens=num_own_tokens, whole=whole)
    found = weigh(kind, advantage, own=own, claimed=claimed)
    assert 0 <= found <= 1


@given(
    kind=st.sampled_from(["as-own", "positive", "tapered"]),
    advantage=st.floats(-10, 10),
    own=st.floats(-50, 0),
    claimed=st.floats(-50, 0),
)
def test_a_claim_only_lowers_a_weight(kind: Weighting, advantage: float, own: float, claimed: float) -> None:
    told, silent = (weigh(kind, advantage, own=own, claimed=claim) for claim in (claimed, None))
    assert told <= silent


# Gauges.


def test_one_wild_claim_does_not_hide_the_others() -> None:
    assert mean_shown_ratio([]) is None
    assert mean_shown_ratio([0.1, -0.3]) == pytest.approx(math.exp(-0.1))
    assert mean_shown_ratio([1e9, 0.0]) == pytest.approx(math.exp(2.5))
