"""Aggregations as per-token weights: sums, masks, and what is never forwarded."""

import pytest

from swarmd.errors import ConfigError
from swarmd.policy.update.packing import TokenCompletion, TokenRollout
from swarmd.policy.update.settings import UpdateSettings
from swarmd.policy.update.weighting import token_weights, weigh

LENGTHS = [2, 3, 5]


@pytest.mark.parametrize(
    ("aggregation", "wanted"),
    [("dapo", [1 / 10] * 3), ("grpo", [1 / 6, 1 / 9, 1 / 15]), ("dr_grpo", [1 / 24] * 3)],
)
def test_weight_of_a_token(aggregation: str, wanted: list[float]) -> None:
    settings = UpdateSettings.from_dict({"aggregation": aggregation, "completion_tokens_max": 8})
    assert token_weights(LENGTHS, [True] * 3, settings) == pytest.approx(wanted)


def test_a_masked_completion_leaves_the_token_count() -> None:
    assert token_weights(LENGTHS, [True, True, False], UpdateSettings()) == [1 / 5, 1 / 5, 0.0]


def test_a_masked_completion_stays_in_the_completion_count() -> None:
    assert token_weights([2, 4], [True, False], UpdateSettings(aggregation="grpo")) == [1 / 4, 0.0]


@pytest.mark.parametrize("lengths", [[], [0], [0, 0]])
def test_nothing_to_count_is_no_division_by_zero(lengths: list[int]) -> None:
    assert token_weights(lengths, [True] * len(lengths), UpdateSettings()) == [0.0] * len(lengths)


def test_zero_advantage_is_counted_and_dropped() -> None:
    rollout = TokenRollout((1,), (TokenCompletion((1, 2), 0.0), TokenCompletion((3, 4), 1.0)))
    (group,) = weigh([rollout], UpdateSettings())
    assert [(c.index, c.token_weight) for c in group.completions] == [(1, 1 / 4)]


def test_a_rollout_without_signal_disappears() -> None:
    assert (
        weigh([TokenRollout((1,), (TokenCompletion((1,), 0.0), TokenCompletion((), 1.0)))], UpdateSettings())
        == []
    )


def test_a_completions_weight_stays_out_of_the_normaliser() -> None:
    rollout = TokenRollout(
        (1,), (TokenCompletion((1, 2), 1.0, weight=0.5), TokenCompletion((3, 4), 1.0)), external=True
    )
    (group,) = weigh([rollout], UpdateSettings())
    assert [c.token_weight for c in group.completions] == [0.5 / 4, 1 / 4]


@pytest.mark.parametrize(
    "values",
    [
        {"aggregation": "mean"},
        {"aggregation": "dr_grpo"},
        {"clip_low": 0.0},
        {"learning_rate": float("nan")},
        {"betas": [0.9, 1.0]},
        {"micro_batch_tokens": 0},
        {"grad_norm_max": -1.0},
        {"kl": 0.1},
    ],
)
def test_settings_that_make_no_sense_are_the_operators_error(values: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        UpdateSettings.from_dict(values)


def test_settings_come_from_plain_values() -> None:
    assert UpdateSettings.from_dict({"betas": [0.9, 0.95]}).betas == (0.9, 0.95)
