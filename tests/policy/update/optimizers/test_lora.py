"""Adapters: only they train, their gradient is the plain one, and the world outside sees the merged model."""

import sys

import pytest
import torch
from transformers import PreTrainedModel

from swarmd.errors import ConfigError
from swarmd.policy.state.weights import load_weights, named_tensors, save_weights
from swarmd.policy.update.lora import add_adapters
from tests.policy import plain_reference
from tests.policy.tiny_models import build, round_of
from tests.policy.update.optimizers.policies import learner_of, parameters, same, saved

IDS = torch.arange(1, 40)[None]


@torch.no_grad()
def logits(model: PreTrainedModel) -> torch.Tensor:
    return model(IDS).logits


@pytest.mark.parametrize("kind", ["qwen-tied", "qwen-untied", "llama"])
def test_only_adapters_of_all_linear_layers_change(kind: str) -> None:
    learner = learner_of("lora", kind=kind)
    before = parameters(learner.model)
    learner.update(round_of(1))
    learner.update(round_of(2))
    after = parameters(learner.model)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {name for name in before if "lora_" in name}
    assert len(changed) == 2 * 7 * 2  # two factors, seven matrices, two layers


def test_untrained_adapters_change_nothing() -> None:
    plain = build()
    assert torch.equal(logits(plain), logits(learner_of("lora").model))


def test_an_adapters_gradient_is_the_plain_one() -> None:
    learner = learner_of("lora")
    learner.update(round_of(1))
    twin = build()
    add_adapters(twin, 4)
    twin.load_state_dict(learner.model.state_dict())
    for parameter in twin.parameters():
        parameter.requires_grad_(True)
    _, wanted = plain_reference.loss_and_gradients(twin, round_of())
    _, found = learner.gradients(round_of())
    assert plain_reference.worst_difference(found, {name: wanted[name] for name in found}) < 1e-5


@pytest.mark.parametrize("kind", ["qwen-tied", "qwen-untied", "llama"])
def test_published_weights_are_the_live_policy(kind: str, tmp_path: object) -> None:
    learner = learner_of("lora", kind=kind)
    for number in range(3):
        learner.update(round_of(number))
    plain = build(kind, seed=7)
    load_weights(plain, save_weights(learner.model, tmp_path, 1))
    assert (logits(plain) - logits(learner.model)).abs().max() <= 1e-5
    assert (logits(build(kind)) - logits(learner.model)).abs().max() > 1e-2


def test_a_merged_matrix_leaves_the_live_one_alone() -> None:
    learner = learner_of("lora")
    learner.update(round_of())
    before = parameters(learner.model)
    assert all(tensor.shape for tensor in named_tensors(learner.model).values())
    assert same(before, parameters(learner.model))


def test_weights_from_outside_replace_the_adapters_effect(tmp_path: object) -> None:
    learner, other = learner_of("lora"), build(seed=3)
    learner.update(round_of())
    load_weights(learner.model, save_weights(other, tmp_path, 1))
    learner.weights_changed()
    assert torch.equal(logits(learner.model), logits(other))
    assert not any(value.any() for key, value in saved(learner).items() if key.startswith("exp_avg"))


def test_adapters_of_a_narrow_model_are_narrow_with_full_masters() -> None:
    learner = learner_of("lora", dtype=torch.bfloat16)
    learner.update(round_of())
    assert all(value.dtype == torch.bfloat16 for value in parameters(learner.model).values())
    adapters = [value for key, value in saved(learner).items() if key.startswith("adapter/")]
    assert {value.dtype for value in adapters} == {torch.float32}


def test_the_head_stays_frozen_and_the_model_transformers_own() -> None:
    plain, learner = build(), learner_of("lora")
    assert type(learner.model) is type(plain)
    assert learner.model.base_model is learner.model.model
    assert type(learner.model.get_output_embeddings()) is torch.nn.Linear
    assert learner.model.get_output_embeddings().weight is learner.model.get_input_embeddings().weight


def test_without_peft_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ConfigError) as raised:
        learner_of("lora")
    assert "pip install peft" in raised.value.fix


def test_a_model_without_linear_layers_cannot_be_adapted() -> None:
    model = build()
    model.model.layers = torch.nn.ModuleList()
    with pytest.raises(ConfigError, match="cannot adapt"):
        add_adapters(model, 4)
