"""What holds whichever optimizer steps: rounds that must not count, restarts, checkpointed activations, another's state."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from swarmd.errors import OutOfMemory, StateError
from swarmd.optimizers import OPTIMIZER
from swarmd.policy.state.weights import named_tensors
from swarmd.policy.update.packing import TokenRollout
from tests.policy.plain_reference import worst_difference
from tests.policy.tiny_models import build, round_of
from tests.policy.update.optimizers.policies import KINDS, learner_of, learner_on, parameters, same, saved

BOTH = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
EVERY = pytest.mark.parametrize("kind", KINDS)


def spoilt() -> list[TokenRollout]:
    return [
        replace(r, completions=tuple(replace(c, advantage=math.nan) for c in r.completions))
        for r in round_of()
    ]


@EVERY
@BOTH
def test_a_step_changes_the_policy(kind: str, dtype: torch.dtype) -> None:
    learner = learner_of(kind, dtype=dtype)
    before = parameters(learner.model)
    stats = learner.update(round_of())
    assert (stats.skipped, stats.num_steps, stats.fast_path) == (None, 1, True)
    assert not same(before, parameters(learner.model))


@EVERY
@BOTH
def test_a_non_finite_round_leaves_weights_and_state_alone(kind: str, dtype: torch.dtype) -> None:
    learner = learner_of(kind, dtype=dtype)
    learner.update(round_of())
    before, state = parameters(learner.model), saved(learner)
    assert learner.update(spoilt()).skipped == "non_finite"
    assert same(before, parameters(learner.model))
    assert same(state, saved(learner))
    assert learner.update(round_of(1)).skipped is None


@EVERY
@BOTH
def test_a_restart_between_updates_changes_nothing(kind: str, dtype: torch.dtype) -> None:
    straight, first = learner_of(kind, dtype=dtype), learner_of(kind, dtype=dtype)
    straight.update(round_of(1))
    straight.update(round_of(2))
    first.update(round_of(1))
    second = learner_of(kind, dtype=dtype)
    if second.needs_weights(saved(first)):
        second.model.load_state_dict(first.model.state_dict())
        second.weights_changed()
    assert second.load_optimizer_tensors(saved(first)) == ""
    second.update(round_of(2))
    assert same(parameters(straight.model), parameters(second.model))
    assert same(saved(straight), saved(second))


@EVERY
def test_memory_that_runs_out_in_the_backward_leaves_everything(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = learner_of(kind, dtype=torch.bfloat16, micro_batch_tokens=20)
    learner.update(round_of())
    before, state = parameters(learner.model), saved(learner)
    norm = learner.model.model.layers[1].input_layernorm
    with monkeypatch.context() as patch:
        patch.setattr(norm, "forward", running_out(norm.forward, after=2))
        with pytest.raises(torch.OutOfMemoryError):
            learner.update(round_of())
    assert same(before, parameters(learner.model))
    assert same(state, saved(learner))
    twin = learner_of(kind, dtype=torch.bfloat16, micro_batch_tokens=20)
    twin.update(round_of())
    learner.update(round_of(1))
    twin.update(round_of(1))
    assert same(parameters(twin.model), parameters(learner.model))


def running_out(forward: Callable[[Tensor], Tensor], *, after: int) -> Callable[[Tensor], Tensor]:
    """Its gradient does not fit, the third time it is wanted: some gradients of two micro-batches are out by then."""
    calls = 0

    def failing(gradient: Tensor) -> None:
        nonlocal calls
        calls += 1
        if calls > after:
            raise torch.OutOfMemoryError("out of memory")

    def run(hidden: Tensor) -> Tensor:
        output = forward(hidden)
        if output.requires_grad:
            output.register_hook(failing)
        return output

    return run


@EVERY
@BOTH
def test_checkpointed_activations_give_the_same_gradient(kind: str, dtype: torch.dtype) -> None:
    plain, checkpointed = (
        learner_of(kind, dtype=dtype, micro_batch_tokens=30, checkpointing=on) for on in (False, True)
    )
    for learner in (plain, checkpointed):
        learner.update(round_of(1))  # an adapter's first factor has a gradient only from the second step on
    _, wanted = plain.gradients(round_of())
    _, found = checkpointed.gradients(round_of())
    assert worst_difference(found, wanted) <= 1e-6
    assert not checkpointed.model.training


@EVERY
@pytest.mark.parametrize(
    "spoil",
    [
        lambda tensors: tensors | {"master/no.such.weight": torch.zeros(1)},
        lambda tensors: tensors | {"exp_avg/model.norm.weight": torch.zeros(3)},
        lambda tensors: tensors | {"exp_max/model.norm.weight": torch.zeros(64)},
    ],
)
def test_state_of_another_model_is_refused(
    kind: str, spoil: Callable[[dict[str, Tensor]], dict[str, Tensor]]
) -> None:
    learner = learner_of(kind)
    learner.update(round_of())
    before, state = parameters(learner.model), saved(learner)
    with pytest.raises(StateError, match="do not fit the model"):
        learner.load_optimizer_tensors(spoil(state))
    assert same(state, saved(learner))
    assert same(before, parameters(learner.model))


@pytest.mark.parametrize("old", KINDS)
@pytest.mark.parametrize("new", KINDS)
def test_anothers_state_is_gone_on_from_or_refused_in_words(old: str, new: str) -> None:
    before = learner_of(old, dtype=torch.bfloat16)
    before.update(round_of())
    after = learner_of(new, dtype=torch.bfloat16)
    said = after.load_optimizer_tensors(saved(before))
    goes_on = OPTIMIZER[old].saved_mark == OPTIMIZER[new].saved_mark
    assert (said == "") == goes_on
    moments = {k: v for k, v in saved(after).items() if k.startswith(("step", "exp_avg"))}
    assert any(value.any() for value in moments.values()) == goes_on
    assert after.update(round_of()).skipped is None


@pytest.mark.parametrize(
    ("old", "new"), [("adamw", "adam-8bit"), ("host", "adam-8bit"), ("adam-8bit", "host")]
)
def test_masters_outlive_a_change_of_optimizer(old: str, new: str) -> None:
    before, after = (learner_of(name, dtype=torch.bfloat16, learning_rate=1e-6) for name in (old, new))
    before.update(round_of())
    after.load_optimizer_tensors(saved(before))
    masters = {k: v for k, v in saved(before).items() if k.startswith("master/")}
    assert masters
    assert same(masters, {k: v for k, v in saved(after).items() if k.startswith("master/")})


@EVERY
def test_published_tensors_have_the_models_own_names(kind: str) -> None:
    learner, plain = learner_of(kind), build()
    wanted = {name: tensor.shape for name, tensor in named_tensors(plain).items()}
    assert {name: tensor.shape for name, tensor in named_tensors(learner.model).items()} == wanted


def test_a_sum_over_micro_batches_does_not_depend_on_the_optimizer() -> None:
    found = []
    for kind in ("adamw", "adam-8bit", "host"):
        found.append(learner_on(build(), kind, micro_batch_tokens=20).gradients(round_of())[1])
    assert max(worst_difference(found[0], other) for other in found[1:]) <= 1e-6


def test_an_optimizer_that_does_not_fit_says_so_and_lets_go_of_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, twin = (build(dtype=torch.bfloat16) for _ in range(2))

    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 bytes")

    with monkeypatch.context() as patch:
        patch.setattr("swarmd.policy.update.optimizers.adam.torch.zeros_like", full)
        with pytest.raises(OutOfMemory, match="adamw does not fit"):
            learner_on(model, "adamw")
    learner_on(model, "host").update(round_of())
    learner_on(twin, "host").update(round_of())
    assert same(parameters(model), parameters(twin))


@pytest.mark.parametrize("later", ["adam-8bit", "host", "lora"])
def test_a_learner_that_was_closed_leaves_the_model_to_the_next(later: str) -> None:
    first, twin = learner_of("adamw", dtype=torch.bfloat16), build(dtype=torch.bfloat16)
    first.update(round_of())
    twin.load_state_dict(first.model.state_dict())
    first.release()
    for model in (first.model, twin):
        learner_on(model, later).update(round_of(1))
    assert same(parameters(first.model), parameters(twin))
