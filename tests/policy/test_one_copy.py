"""The policy service with vLLM and one copy of the weights: what changes them on one side is there on the other."""

import importlib.util
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from swarmd.clients.events import PlanChanged
from swarmd.errors import OutOfMemory
from swarmd.policy.generation.engine import Sampling
from swarmd.policy.generation.shared_weights import load_beside
from swarmd.policy.generation.transformers_engine import TransformersEngine
from swarmd.policy.generation.vllm_engine import VllmEngine
from swarmd.policy.model.loading import load_model
from swarmd.policy.plans.ladder import Execution
from swarmd.policy.plans.needs import ONE_COPY_KINDS
from swarmd.policy.service import PolicyService
from swarmd.policy.state import saving, weights
from swarmd.policy.state.shapes import ModelShapes
from tests.policy.folders import build_folder
from tests.policy.services import own_rollout, parameters, started
from tests.policy.test_planned import PLANS, only_fits
from tests.policy.test_vllm_service import PROMPTS, expected, greedy

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_folder(tmp_path_factory.mktemp("model") / "heads-of-32", hidden=128)


@pytest.fixture
def one_copy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., PolicyService]]:
    """Starts services with vLLM, in which nothing may be handed over."""

    def refuse(*_: Any) -> None:
        raise AssertionError("weights were handed over")

    monkeypatch.setattr(VllmEngine, "load_weights", refuse)
    services: list[PolicyService] = []

    def start(**options: Any) -> PolicyService:
        services.append(started(folder, engine="vllm", learning_rate=0.05, **options))
        assert services[-1].about().engine_note == ""
        return services[-1]

    yield start
    for policy in services:
        assert_one_copy(policy)


def assert_one_copy(policy: PolicyService) -> None:
    """Every weight of the model's folder lies in the engine's memory, and there is no other."""
    model, engine = policy._model, policy._engine
    assert model is not None
    assert engine is not None
    theirs, live = engine.tensors(), weights.base_tensors(model)
    held = {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in theirs.values()}
    assert {one.untyped_storage().data_ptr() for one in live.values()} == held.keys()
    num_padded = theirs["model.embed_tokens.weight"].numel() - live["model.embed_tokens.weight"].numel()
    assert sum(held.values()) == 4 * (policy.about().num_parameters + num_padded)


def merged(policy: PolicyService, folder: Path) -> Any:
    """A model of its own with the policy's weights, adapters merged."""
    model = load_model(folder, "cpu")
    model.load_state_dict(dict(weights.named_tensors(policy._model).items()), strict=False)
    return model


def update(policy: PolicyService, number: int, **options: Any) -> Any:
    """A round on completions of the policy's own."""
    wire = own_rollout(policy, PROMPTS[0], seed=number, counter=number)
    return policy.update([wire], number, {"round": number}, options.pop("save", "no"), **options)


def test_the_engine_has_every_step_though_nothing_is_handed_over(
    one_copy: Callable[..., PolicyService],
) -> None:
    policy = one_copy()
    seen, places = [greedy(policy)], pointers(policy)
    for number in (1, 2, 3):
        assert update(policy, number).policy_version == number
        seen.append(greedy(policy))
        assert seen[-1] == expected(policy, policy._model)
        assert seen[-1] != seen[-2]
    assert policy.generate(PROMPTS, 1, 1.0, 4, 0).seconds_weight_sync == 0
    assert pointers(policy) == places
    assert policy.about().mismatch == "token"  # the engine's kernels are its own


def pointers(policy: PolicyService) -> list[int]:
    return [one.data_ptr() for one in policy._engine.tensors().values()]


def test_a_model_of_another_type_than_the_engines_gets_a_copy(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarmd.policy.model.loading.dtype_of", lambda device: torch.float64)
    policy = started(folder, engine="vllm", learning_rate=0.05)
    assert "is torch.float32, the model's" in policy.about().engine_note
    update(policy, 1)
    assert greedy(policy) == expected(policy, policy._model)


def write_family(kind: str, folder: Path) -> None:
    """A random model of that kind in a folder."""
    sizes = {
        "vocab_size": 300,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "max_position_embeddings": 128,
        "pad_token_id": 0,
    }
    AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **sizes)).save_pretrained(folder)


@pytest.mark.parametrize("kind", sorted(ONE_COPY_KINDS))
def test_the_kinds_for_which_the_plans_count_one_copy_do_share(kind: str, tmp_path: Path) -> None:
    write_family(kind, tmp_path)
    engine = VllmEngine(
        tmp_path,
        device="cpu",
        shapes=ModelShapes.of_folder(tmp_path),
        eos_ids=[0],
        batch_tokens_max=256,
        context_tokens_max=128,
        can_share=True,
    )
    model, why = load_beside(engine, tmp_path, "cpu")
    assert (model.config.model_type, why) == (kind, "")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    other = TransformersEngine(model, eos_ids=[0], pad_id=0, batch_tokens_max=256, context_tokens_max=128)
    sampling = Sampling(1, 0.0, 12, 0)
    assert engine.generate([[5, 6, 7]], sampling)[0][0].ids == other.generate([[5, 6, 7]], sampling)[0][0].ids


def test_going_back_and_going_on_reach_the_engine(
    one_copy: Callable[..., PolicyService], tmp_path: Path
) -> None:
    policy = one_copy(checkpoints=tmp_path)
    update(policy, 1, save="now")
    good = greedy(policy)
    update(policy, 2)
    assert greedy(policy) != good
    policy.rollback(1, 3, {"round": 3})
    assert greedy(policy) == good == expected(policy, policy._model)
    assert greedy(one_copy(checkpoints=tmp_path)) == good


@pytest.mark.parametrize("plan", ["adam-8bit", "lora"])
def test_a_step_down_for_lack_of_memory_keeps_the_one_copy(
    one_copy: Callable[..., PolicyService], folder: Path, monkeypatch: pytest.MonkeyPatch, plan: str
) -> None:
    events: list[Any] = []
    policy = one_copy(events=events)
    update(policy, 1)
    before = greedy(policy)
    only_fits(monkeypatch, lambda how: how.optimizer == plan)
    assert update(policy, 2).plan == plan
    after = greedy(policy)
    assert after == expected(policy, merged(policy, folder))
    assert after != before
    held = parameters(policy)
    update(policy, 3)
    assert greedy(policy) == expected(policy, merged(policy, folder)) != after
    if plan == "lora":  # the frozen matrices came back from generation bit for bit
        same = [name for name, one in parameters(policy).items() if torch.equal(one, held[name])]
        assert [name for name in held if "base_layer" in name or "norm" in name] == [
            name for name in same if "lora" not in name and "embed" not in name and "head" not in name
        ]
    assert [event.after for event in events if isinstance(event, PlanChanged)][-1] == plan


def test_a_round_that_fits_under_no_plan_changes_nothing(
    one_copy: Callable[..., PolicyService], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = one_copy()
    update(policy, 1)
    before, places = greedy(policy), pointers(policy)
    with monkeypatch.context() as patch:
        tried = only_fits(patch, lambda how: False)
        with pytest.raises(OutOfMemory, match="under any plan"):
            update(policy, 2)
    assert (len(tried), policy.about().plan) == (len(PLANS), "resident")
    assert (greedy(policy), pointers(policy)) == (before, places)
    assert update(policy, 3).policy_version == 2
    assert greedy(policy) == expected(policy, policy._model)


@pytest.mark.parametrize("how", [Execution(4096), Execution(4096, optimizer="lora")], ids=["adamw", "lora"])
def test_a_checkpoint_in_the_background_is_of_its_round(
    one_copy: Callable[..., PolicyService],
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: Execution,
) -> None:
    policy, read, copy = one_copy(checkpoints=tmp_path, how=how), threading.Event(), saving._on_host

    def slow(tensors: Any) -> Any:
        assert read.wait(60)
        return copy(tensors)

    monkeypatch.setattr(saving, "_on_host", slow)
    update(policy, 1, save="background")
    wanted = expected(policy, merged(policy, folder))
    threading.Timer(0.2, read.set).start()
    generate = policy._engine.generate

    def while_it_is_copied(*arguments: Any) -> Any:
        assert policy._saving is not None
        policy._saving.release()
        return generate(*arguments)

    # generation may begin before the copy has: with adapters only where it does not write what is copied
    monkeypatch.setattr(policy._engine, "generate", while_it_is_copied)
    assert greedy(policy) == wanted
    update(policy, 2)
    assert policy._saving is not None
    policy._saving.finish()
    file = tmp_path / "round-00000001"
    other = load_model(folder, "cpu")
    weights.load_weights(other, file)
    assert expected(policy, other) == wanted != greedy(policy)
