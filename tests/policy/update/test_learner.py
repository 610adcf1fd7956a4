"""The learner's rounds: skipping, stepping, saving and going on, narrow models, models the fast path does not know."""

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import Gemma2Config, Gemma2ForCausalLM, MistralConfig, MistralForCausalLM, PreTrainedModel

from swarmd.errors import StateError
from swarmd.policy.update.learner import Learner
from swarmd.policy.update.packing import TokenCompletion, TokenRollout
from tests.policy import plain_reference
from tests.policy.settings import learner_with
from tests.policy.tiny_models import build, rollout, round_of


def fast(model: PreTrainedModel, **changes: Any) -> Learner:
    """A learner whose steps show."""
    return learner_with(model, **{"learning_rate": 1e-2, **changes})


def weights(model: PreTrainedModel) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def with_advantages(value: float) -> list[TokenRollout]:
    return [
        replace(r, completions=tuple(replace(c, advantage=value) for c in r.completions)) for r in round_of()
    ]


# Rounds that must not train.


@pytest.mark.parametrize(
    ("rollouts", "reason"),
    [
        ([], "no_data"),
        ([TokenRollout((1, 2), ())], "no_data"),
        ([TokenRollout((1, 2), (TokenCompletion((), 1.0),))], "no_data"),
        (with_advantages(0.0), "zero_advantage"),
    ],
)
def test_a_round_without_signal_is_skipped(rollouts: list[TokenRollout], reason: str) -> None:
    model = build()
    before = weights(model)
    stats = fast(model).update(rollouts)
    assert (stats.skipped, stats.num_steps, same(before, weights(model))) == (reason, 0, True)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_non_finite_advantage_leaves_weights_and_optimizer_alone(value: float) -> None:
    model = build()
    learner = fast(model)
    learner.update(round_of())
    before, state = weights(model), {k: v.clone() for k, v in learner.optimizer_tensors().items()}
    assert learner.update(with_advantages(value)).skipped == "non_finite"
    assert same(before, weights(model))
    assert same(state, learner.optimizer_tensors())


def test_a_non_finite_gradient_with_a_finite_loss_is_skipped() -> None:
    model = build()
    learner = fast(model)
    learner.update(round_of())
    model.model.norm.weight.register_hook(lambda gradient: gradient * math.nan)
    before = weights(model)
    assert learner.update(round_of()).skipped == "non_finite"
    assert same(before, weights(model))


def test_a_skipped_round_does_not_spoil_the_next() -> None:
    model = build()
    learner = fast(model)
    learner.update(with_advantages(math.nan))
    assert learner.update(round_of()).skipped is None


# Rounds that train.


def test_a_step_is_adams_on_the_plain_gradient() -> None:
    model, twin = build(), build()
    _, gradients = plain_reference.loss_and_gradients(twin, round_of())
    for name, parameter in twin.named_parameters():
        parameter.grad = gradients[name]
    norm = torch.nn.utils.clip_grad_norm_(twin.parameters(), 1.0)
    torch.optim.Adam(twin.parameters(), lr=1e-2).step()
    stats = fast(model).update(round_of())
    assert stats.grad_norm == pytest.approx(norm.item(), rel=1e-4)
    # Adam's first step is the gradient's sign: elements near zero may fall either way, so compare where it is clear.
    for name, parameter in twin.named_parameters():
        clear = gradients[name].abs() > 1e-4 * norm
        assert torch.allclose(model.get_parameter(name)[clear], parameter[clear], atol=1e-5)


def test_counts_of_a_round() -> None:
    rollouts = round_of()
    stats = fast(build()).update(rollouts)
    lengths = [[len(c.ids) for c in r.completions] for r in rollouts]
    assert (stats.num_rollouts_local, stats.num_rollouts_external, stats.num_completions) == (2, 2, 16)
    assert stats.num_tokens_local == sum(map(sum, lengths[:2]))
    assert stats.num_tokens_external == sum(map(sum, lengths[2:]))
    assert stats.num_zero_advantage == 4
    assert stats.num_tokens_trained == sum(sum(row[:3]) for row in lengths)
    assert stats.num_tokens_forwarded == sum(
        len(r.prompt_ids) + sum(row[:3]) - 3 for r, row in zip(rollouts, lengths, strict=True)
    )


def test_mean_log_prob_of_externals_is_the_own_policys() -> None:
    model, rollouts = build(), round_of(num_local=1, num_external=1)
    wanted = [
        logp
        for c, logps in zip(rollouts[1].completions, fast(model).log_probs(rollouts)[1], strict=True)
        if c.advantage
        for logp in logps
    ]
    assert fast(model).update(rollouts).mean_logp_external == pytest.approx(
        sum(wanted) / len(wanted), rel=1e-5
    )


def test_clip_ratios_tell_sides_apart() -> None:
    model, (own, theirs) = build(), round_of(num_local=1, num_external=1)

    def moved(r: TokenRollout, shift: float, advantage: float) -> TokenRollout:
        logps = fast(model).log_probs([r])[0]
        return replace(
            r,
            completions=tuple(
                replace(c, advantage=advantage, old_logps_T=tuple(x + shift for x in old))
                for c, old in zip(r.completions, logps, strict=True)
            ),
        )

    stats = fast(model).update([moved(own, -1.0, 1.0), moved(theirs, 1.0, -1.0)])
    num_own, num_theirs = (sum(len(c.ids) for c in r.completions) for r in (own, theirs))
    assert stats.clip_ratio_high == pytest.approx(num_own / (num_own + num_theirs))
    assert stats.clip_ratio_low == pytest.approx(num_theirs / (num_own + num_theirs))


def test_unfinished_completions_can_be_masked() -> None:
    stats = fast(build(), mask_unfinished=True).update(round_of())
    assert stats.num_masked == 4
    assert stats.num_tokens_trained < fast(build()).update(round_of()).num_tokens_trained


def test_several_steps_refer_to_the_log_probs_before_the_first() -> None:
    stats = fast(build(), minibatches=2, epochs=2).update(round_of())
    assert stats.num_steps == 4
    assert stats.clip_ratio_low + stats.clip_ratio_high > 0


def test_log_probs_keep_their_places() -> None:
    model, rollouts = build(), round_of()
    rollouts[1] = replace(rollouts[1], completions=(TokenCompletion((), 1.0), *rollouts[1].completions))
    found = fast(model, micro_batch_tokens=20).log_probs(rollouts)
    for r, found_G in zip(rollouts, found, strict=True):
        for c, logps in zip(r.completions, found_G, strict=True):
            if c.ids:
                (wanted,) = plain_reference._one_by_one(model, [(r.prompt_ids, c)], 1.0)
                assert logps == pytest.approx(wanted.tolist(), abs=1e-4)
            else:
                assert logps == ()


# Saving and going on.


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_two_updates_in_a_row_equal_two_with_a_restart_between(dtype: torch.dtype) -> None:
    straight, first = build(dtype=dtype), build(dtype=dtype)
    learner = fast(straight)
    learner.update(round_of(1))
    learner.update(round_of(2))

    before = fast(first)
    before.update(round_of(1))
    saved = {name: value.clone() for name, value in before.optimizer_tensors().items()}
    second = build(seed=5, dtype=dtype)
    second.load_state_dict(first.state_dict())
    after = fast(second)
    after.load_optimizer_tensors(saved)
    after.update(round_of(2))
    assert same(weights(straight), weights(second))
    assert same(learner.optimizer_tensors(), after.optimizer_tensors())


def test_an_update_repeats_bit_for_bit() -> None:
    models = [build(), build()]
    for model in models:
        fast(model).update(round_of())
    assert same(weights(models[0]), weights(models[1]))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda saved: saved | {"exp_avg/no.such.weight": torch.zeros(1)},
        lambda saved: saved | {"exp_avg/lm_head.bias": torch.zeros(3)},
        lambda saved: saved | {"exp_avg/model.norm.weight": torch.zeros(3)},
        lambda saved: saved | {"exp_max/model.norm.weight": saved["exp_avg/model.norm.weight"]},
    ],
)
def test_optimizer_state_of_another_model_is_refused(
    spoil: Callable[[dict[str, Tensor]], dict[str, Tensor]],
) -> None:
    learner = fast(build())
    learner.update(round_of())
    saved = {name: value.clone() for name, value in learner.optimizer_tensors().items()}
    with pytest.raises(StateError, match="do not fit the model"):
        learner.load_optimizer_tensors(spoil(saved))
    assert same(saved, learner.optimizer_tensors())


# Narrow models.


def test_steps_too_small_for_bfloat16_add_up_in_the_masters() -> None:
    model = build(dtype=torch.bfloat16)
    before = weights(model)
    learner = fast(model, learning_rate=2e-6)
    for _ in range(3):
        learner.update(round_of())
    masters = learner.optimizer_tensors()
    moved = [
        (masters[f"master/{name}"] != value.float()).float().mean().item() for name, value in before.items()
    ]
    assert min(moved) > 0.3  # embeddings of tokens that are not there stay
    assert all(value.dtype == torch.bfloat16 for value in weights(model).values())


def test_a_bfloat16_models_gradient_is_close_to_the_wide_ones() -> None:
    narrow, wide = build(dtype=torch.bfloat16), build()
    wide.load_state_dict(narrow.state_dict())
    _, wanted = fast(wide).gradients(round_of())
    _, found = fast(narrow).gradients(round_of())
    assert all(value.dtype == torch.float32 for value in found.values())
    assert plain_reference.worst_difference(found, wanted) < 0.15


def test_weights_loaded_from_outside_become_the_masters() -> None:
    model, other = build(dtype=torch.bfloat16), build(seed=3, dtype=torch.bfloat16)
    learner = fast(model, learning_rate=1e-9)
    model.load_state_dict(other.state_dict())
    learner.weights_changed()
    learner.update(round_of())
    for name, value in weights(other).items():
        assert torch.allclose(model.get_parameter(name), value, atol=1e-6)


def test_gradient_checkpointing_changes_nothing() -> None:
    plain, checkpointed = build(attention_dropout=0.5), build(attention_dropout=0.5)
    fast(plain).update(round_of())
    fast(checkpointed, checkpointing=True).update(round_of())
    assert not checkpointed.training
    assert same(weights(plain), weights(checkpointed))


# Models the fast path does not know.


def tiny(family: str, *, sliding_window: int = 6) -> PreTrainedModel:
    torch.manual_seed(0)
    shape = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "vocab_size": 300,
        "initializer_range": 0.3,
    }
    if family == "gemma2":
        return Gemma2ForCausalLM(Gemma2Config(**shape, query_pre_attn_scalar=16, attn_implementation="eager"))
    return MistralForCausalLM(MistralConfig(**shape, sliding_window=sliding_window))


def plain_cost(rollouts: list[TokenRollout]) -> float:
    """Tokens forwarded with each completion after a prompt of its own, over those with shared prompts."""
    trained = [(len(r.prompt_ids), [len(c.ids) - 1 for c in r.completions if c.advantage]) for r in rollouts]
    return sum(p * len(own) + sum(own) for p, own in trained) / sum(p + sum(own) for p, own in trained)


def test_a_model_with_other_attention_trains_on_the_plain_path() -> None:
    model = tiny("gemma2")
    _, wanted = plain_reference.loss_and_gradients(model, round_of())
    learner = fast(model)
    _, found = learner.gradients(round_of())
    stats = learner.update(round_of())
    assert plain_reference.worst_difference(found, wanted) < 1e-5
    assert (stats.fast_path, stats.skipped) == (False, None)
    assert stats.slow_cost == plain_cost(round_of())
    assert "softcap" in stats.self_check


def test_sequences_longer_than_a_sliding_window_take_the_plain_path() -> None:
    model = tiny("mistral")
    learner = fast(model)
    rng = random.Random(0)
    long_round = [rollout(rng), rollout(rng)]
    _, wanted = plain_reference.loss_and_gradients(model, long_round)
    _, found = learner.gradients(long_round)
    assert plain_reference.worst_difference(found, wanted) < 1e-5
    assert not learner.update(long_round).fast_path


def test_only_rounds_with_a_sequence_longer_than_the_window_are_slow() -> None:
    learner = fast(tiny("mistral", sliding_window=200))
    short = TokenRollout((1, 2), (TokenCompletion((5, 6), 1.0), TokenCompletion((7,), -1.0)))
    stats = learner.update([replace(short, prompt_ids=tuple(range(1, 251)))])
    assert "attention window of 200" in stats.self_check
    assert stats.slow_cost == pytest.approx((251 + 250) / 251)
    assert learner.update([short]).slow_cost is None


def test_the_self_check_reports_its_difference() -> None:
    stats = fast(build()).update(round_of())
    assert stats.fast_path
    assert stats.self_check.startswith("relative difference")
