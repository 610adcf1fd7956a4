"""A node that comes back, under the same optimizer or another: weights always carry over, and what does not is said."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from swarmd.clients.events import OptimizerRestarted, PolicyEvent
from swarmd.optimizers import OPTIMIZER, OPTIMIZERS
from swarmd.policy.model.folder import ResolvedModel, read_folder
from swarmd.policy.service import PolicyService
from swarmd.policy.state.export import export_checkpoint
from swarmd.policy.state.weights import named_tensors
from tests.policy.folders import build_folder
from tests.policy.services import own_rollout, service, started
from tests.policy.settings import execution

KINDS = tuple(kind.name for kind in OPTIMIZERS)
LORA = {"how": execution(optimizer="lora", lora_rank=4)}


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wide enough that its matrices have 8-bit moments."""
    return build_folder(tmp_path_factory.mktemp("models") / "wide", hidden=64)


def policy_of(policy: PolicyService) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in named_tensors(policy._model).items()}


def train(policy: PolicyService, wire: dict[str, Any], *numbers: int) -> None:
    for number in numbers:
        policy.update([wire], round=number, state={"round": number}, save="now")


def back(model_dir: Path, checkpoints: Path, **settings: Any) -> tuple[PolicyService, list[str]]:
    events: list[PolicyEvent] = []
    policy = started(model_dir, checkpoints=checkpoints, events=events, **settings)
    return policy, [event.why for event in events if isinstance(event, OptimizerRestarted)]


def distance(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    return max((one[name] - other[name]).abs().max().item() for name in one)


@pytest.mark.parametrize("kind", KINDS)
def test_it_goes_on_as_if_it_had_never_stopped(model_dir: Path, tmp_path: Path, kind: str) -> None:
    first = started(model_dir, checkpoints=tmp_path, how=execution(optimizer=kind, lora_rank=4))
    wire = own_rollout(first, "one?")
    train(first, wire, 1, 2)
    second, said = back(model_dir, tmp_path, how=execution(optimizer=kind, lora_rank=4))
    assert said == []
    for policy in (first, second):
        policy.update([wire], round=3, state={}, save="no")
    assert distance(policy_of(first), policy_of(second)) == 0


@pytest.mark.parametrize("old", KINDS)
@pytest.mark.parametrize("new", KINDS)
def test_under_another_optimizer_the_policy_is_the_same(
    model_dir: Path, tmp_path: Path, old: str, new: str
) -> None:
    first = started(model_dir, checkpoints=tmp_path, how=execution(optimizer=old, lora_rank=4))
    wire = own_rollout(first, "one?")
    train(first, wire, 1, 2)
    second, said = back(model_dir, tmp_path, how=execution(optimizer=new, lora_rank=4))
    assert distance(policy_of(first), policy_of(second)) <= 1e-6
    assert bool(said) == (OPTIMIZER[old].saved_mark != OPTIMIZER[new].saved_mark)
    assert second.update([wire], round=3, state={}, save="no").to_record()["policy_version"] == 3


def test_adapters_on_another_optimizers_weights_come_back_exactly(model_dir: Path, tmp_path: Path) -> None:
    full = started(model_dir, checkpoints=tmp_path)
    wire = own_rollout(full, "one?")
    train(full, wire, 1)
    adapted, _ = back(model_dir, tmp_path, **LORA)
    train(adapted, wire, 2, 3)
    again, said = back(model_dir, tmp_path, **LORA)
    assert said == []
    assert distance(policy_of(adapted), policy_of(again)) == 0
    train(again, wire, 4)
    train(adapted, wire, 4)
    assert distance(policy_of(adapted), policy_of(again)) == 0


def test_another_rank_starts_new_adapters_on_the_merged_weights(model_dir: Path, tmp_path: Path) -> None:
    first = started(model_dir, checkpoints=tmp_path, **LORA)
    train(first, own_rollout(first, "one?"), 1)
    second, said = back(model_dir, tmp_path, how=execution(optimizer="lora", lora_rank=2))
    assert len(said) == 1
    assert "another rank" in said[0]
    assert distance(policy_of(first), policy_of(second)) <= 1e-6


def test_adapters_are_not_put_on_a_folder_that_has_changed(tmp_path: Path) -> None:
    folder = build_folder(tmp_path / "model")
    first = started(folder, checkpoints=tmp_path / "c", **LORA)
    train(first, own_rollout(first, "one?"), 1)
    build_folder(folder, seed=1)
    second, said = back(folder, tmp_path / "c", **LORA)
    assert "no longer holds" in said[0]
    assert distance(policy_of(first), policy_of(second)) <= 1e-6


def test_a_lora_node_hands_over_and_exports_merged_weights(model_dir: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    learner = started(model_dir, roles=("update",), checkpoints=tmp_path / "c", **LORA)
    generator = started(model_dir, roles=("generate",))
    train(learner, own_rollout(generator, "one?"), 1, 2)
    generator.load_weights(*learner.publish_weights(str(tmp_path / "w")))
    assert distance(policy_of(learner), policy_of(generator)) == 0
    export_checkpoint(tmp_path / "c", resolved(model_dir), tmp_path / "saved")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "saved")
    assert distance(policy_of(learner), named_tensors(model)) == 0
    assert learner.about().num_parameters == generator.about().num_parameters


def resolved(model_dir: Path) -> ResolvedModel:
    return read_folder("random", model_dir)


def test_a_lora_checkpoint_is_small_beside_its_weights(model_dir: Path, tmp_path: Path) -> None:
    policy = started(model_dir, checkpoints=tmp_path, **LORA)
    train(policy, own_rollout(policy, "one?"), 1)
    saved = load_file(tmp_path / "round-00000001" / "optimizer.safetensors")
    assert {key.partition("/")[0] for key in saved} == {"adapter", "step", "exp_avg", "exp_avg_sq"}


def test_a_process_that_only_generates_reads_a_lora_checkpoint(model_dir: Path, tmp_path: Path) -> None:
    learner = started(model_dir, checkpoints=tmp_path, **LORA)
    train(learner, own_rollout(learner, "one?"), 1)
    generator = service(model_dir, roles=("generate",), checkpoints=tmp_path)
    assert generator.start().policy_version == 1
    assert distance(policy_of(learner), policy_of(generator)) == 0


def test_live_adapters_generate(model_dir: Path) -> None:
    policy = started(model_dir, **LORA)
    said = policy.generate(["one?"], 4, 1.0, 12, 5).completions_RG
    for number in range(5):
        policy.update([own_rollout(policy, "one?")], round=number, state={}, save="no")
    assert policy.generate(["one?"], 4, 1.0, 12, 5).completions_RG != said
