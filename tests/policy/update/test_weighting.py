"""Aggregations as per-token weights: sums, masks, and what is never forwarded."""

import pytest

from swarmd.config import load_config
from swarmd.errors import ConfigError
from swarmd.policy.update.packing import TokenCompletion, TokenRollout
from swarmd.policy.update.weighting import token_weights, weigh
from tests.policy.settings import config

LENGTHS = [2, 3, 5]


@pytest.mark.parametrize(
    ("aggregation", "wanted"),
    [("dapo", [1 / 10] * 3), ("grpo", [1 / 6, 1 / 9, 1 / 15]), ("dr_grpo", [1 / 24] * 3)],
)
def test_weight_of_a_token(aggregation: str, wanted: list[float]) -> None:
    settings = config(aggregation=aggregation, tokens_max=8)
    assert token_weights(LENGTHS, [True] * 3, settings) == pytest.approx(wanted)


def test_a_masked_completion_leaves_the_token_count() -> None:
    assert token_weights(LENGTHS, [True, True, False], config()) == [1 / 5, 1 / 5, 0.0]


def test_a_masked_completion_stays_in_the_completion_count() -> None:
    assert token_weights([2, 4], [True, False], config(aggregation="grpo")) == [1 / 4, 0.0]


@pytest.mark.parametrize("lengths", [[], [0], [0, 0]])
def test_nothing_to_count_is_no_division_by_zero(lengths: list[int]) -> None:
    assert token_weights(lengths, [True] * len(lengths), config()) == [0.0] * len(lengths)


def test_zero_advantage_is_counted_and_dropped() -> None:
    rollout = TokenRollout((1,), (TokenCompletion((1, 2), 0.0), TokenCompletion((3, 4), 1.0)))
    (group,) = weigh([rollout], config())
    assert [(c.index, c.token_weight) for c in group.completions] == [(1, 1 / 4)]


def test_a_rollout_without_signal_disappears() -> None:
    assert weigh([TokenRollout((1,), (TokenCompletion((1,), 0.0), TokenCompletion((), 1.0)))], config()) == []


def test_a_completions_weight_stays_out_of_the_normaliser() -> None:
    rollout = TokenRollout(
        (1,), (TokenCompletion((1, 2), 1.0, weight=0.5), TokenCompletion((3, 4), 1.0)), external=True
    )
    (group,) = weigh([rollout], config())
    assert [c.token_weight for c in group.completions] == [0.5 / 4, 1 / 4]


@pytest.mark.parametrize(
    "values",
    [
        {"aggregation": "mean"},
        {"clip_low": 0.0},
        {"clip_high": 0.0},
        {"learning_rate": float("nan")},
        {"adam_eps": 0.0},
        {"micro_batch_tokens": 0},
        {"grad_norm_max": -1.0},
        {"kl": 0.1},
        {"external_weighting": "mine"},
        {"external_logp_floor": 0.5},
        {"external_weighting": "imitate"},
        {"normaliser": "round"},
        {"mismatch": "geometric"},
        {"mismatch_cap": 0.9},
    ],
)
def test_settings_that_make_no_sense_are_the_operators_error(values: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        load_config(flags={f"update.{key}": value for key, value in values.items()}, environ={})
