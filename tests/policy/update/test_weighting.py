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
        {"external_alpha": -1.0},
        {"imitate_coefficient": float("nan")},
        {"normaliser": "node"},
        {"mismatch": "yes"},
        {"mismatch_cap": 0.9},
        {"mismatch_mean_cap": float("inf")},
    ],
)
def test_settings_that_make_no_sense_are_the_operators_error(values: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        load_config(flags={f"update.{key}": value for key, value in values.items()}, environ={})


# Normalisers of sources.


def of(num_tokens: int, *, external: bool = False, best: bool = False, **others: bool) -> TokenRollout:
    ids = tuple(range(1, num_tokens + 1))
    return TokenRollout((1,), (TokenCompletion(ids, 1.0, best=best, **others),), external)


def weights(rollouts: list[TokenRollout], **settings: object) -> list[float]:
    groups = weigh(rollouts, config(**settings))
    return [c.token_weight for group in groups for c in group.completions]


def test_each_source_can_have_its_normaliser() -> None:
    rollouts = [of(2), of(4), of(10, external=True)]
    assert weights(rollouts) == pytest.approx([1 / 16] * 3)
    assert weights(rollouts, normaliser="source") == pytest.approx([2 / 3 / 6, 2 / 3 / 6, 1 / 3 / 10])


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("aggregation", ["dapo", "grpo", "dr_grpo"])
def test_of_one_source_alone_both_normalisers_are_the_same(external: bool, aggregation: str) -> None:
    rollouts = [of(2, external=external), of(5, external=external)]
    settings = {"aggregation": aggregation, "tokens_max": 8}
    found = weights(rollouts, normaliser="source", **settings)
    assert found == pytest.approx(weights(rollouts, normaliser="round", **settings))


def test_long_externals_do_not_thin_out_own_completions() -> None:
    short, long = ([of(2), of(num, external=True)] for num in (2, 50))
    assert weights(short, normaliser="source")[0] == weights(long, normaliser="source")[0]


@pytest.mark.parametrize("normaliser", ["round", "source"])
@pytest.mark.parametrize("aggregation", ["dapo", "grpo"])
def test_imitated_completions_share_the_coefficient_and_leave_the_rest_alone(
    normaliser: str, aggregation: str
) -> None:
    rollouts = [of(4), of(3, external=True, best=True), of(9, external=True), of(2, external=True, best=True)]
    found = weights(
        rollouts,
        external_weighting="imitate",
        imitate_coefficient=0.5,
        normaliser=normaliser,
        aggregation=aggregation,
    )
    assert found == pytest.approx([1 / 4, 0.5 / 5, 0.5 / 5])


def test_a_masked_completion_is_not_imitated() -> None:
    rollouts = [of(3, external=True, best=True), of(2, external=True, best=True, finished=False)]
    found = weights(rollouts, external_weighting="imitate", mask_unfinished=True, imitate_coefficient=0.3)
    assert found == pytest.approx([0.1])


def test_a_coefficient_of_nothing_forwards_nothing() -> None:
    rollouts = [of(3, external=True, best=True)]
    assert weights(rollouts, external_weighting="imitate", imitate_coefficient=0.0) == []
