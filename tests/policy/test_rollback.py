"""Going back to an earlier checkpoint: bit for bit, as a new version and round, and safe from a kill at any step."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from swarmd.errors import DiskFull, StateError
from swarmd.policy.service import PolicyService
from swarmd.policy.state import checkpoints, weights
from tests.policy.services import own_rollout, parameters, service, started
from tests.policy.settings import execution


def moments(policy: PolicyService) -> dict[str, torch.Tensor]:
    assert policy._learner is not None
    return {name: tensor.clone() for name, tensor in policy._learner.learner.optimizer_tensors().items()}


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def after_rounds(
    model_dir: Path, folder: Path, num: int, *, keep_round: int | None = None, **options: Any
) -> PolicyService:
    """A policy that did so many rounds, its state naming the round to keep from there on."""
    policy = started(model_dir, checkpoints=folder, **options)
    for round in range(1, num + 1):
        keep = keep_round if keep_round is not None and round > keep_round else None
        state = {"round": round, "keep_round": keep}
        policy.update([own_rollout(policy, f"{round}?", seed=round)], round, state, save="now")
    return policy


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_weights_and_optimizer_come_back_bit_for_bit(model_dir: Path, tmp_path: Path) -> None:
    policy = after_rounds(model_dir, tmp_path, 2)
    good = parameters(policy), moments(policy)
    policy.update([own_rollout(policy, "bad?", seed=9)], 3, {"round": 3, "keep_round": 2}, save="now")
    assert not same(parameters(policy), good[0])
    answer = policy.rollback(2, 4, {"round": 4, "keep_round": 2})
    assert same(parameters(policy), good[0])
    assert same(moments(policy), good[1])
    assert (answer.policy_version, answer.saved.checkpoint, answer.lost) == (4, "round-00000004", "")


def test_the_next_update_is_the_one_that_would_have_been(model_dir: Path, tmp_path: Path) -> None:
    policy = after_rounds(model_dir, tmp_path, 2)
    wire = [own_rollout(policy, "next?", seed=5)]
    shutil.copytree(tmp_path, other := tmp_path.with_name("other"))
    straight = started(model_dir, checkpoints=other)
    straight.update(wire, 3, {}, save="no")
    policy.update([own_rollout(policy, "bad?", seed=9)], 3, {"keep_round": 2}, save="now")
    policy.rollback(2, 4, {"keep_round": 2})
    policy.update(wire, 5, {}, save="no")
    assert same(parameters(policy), parameters(straight))
    assert same(moments(policy), moments(straight))


def test_what_generates_is_the_earlier_policy_under_a_new_version(model_dir: Path, tmp_path: Path) -> None:
    policy = after_rounds(model_dir, tmp_path, 1)
    said = policy.generate(["one?"], 4, 1.0, 12, 5)
    policy.update([own_rollout(policy, "bad?", seed=9)], 2, {"keep_round": 1}, save="now")
    policy.rollback(1, 3, {})
    again = policy.generate(["one?"], 4, 1.0, 12, 5)
    assert again.completions_RG == said.completions_RG
    assert (said.policy_version, again.policy_version) == (1, 3)


@pytest.mark.parametrize("optimizer", ["adam-8bit", "host", "lora"])
def test_other_optimizers_go_back_too(model_dir: Path, tmp_path: Path, optimizer: str) -> None:
    policy = after_rounds(model_dir, tmp_path, 2, how=execution(optimizer=optimizer))
    said = policy.generate(["one?"], 4, 1.0, 12, 5)
    for round in (3, 4):
        policy.update([own_rollout(policy, "bad?", seed=round)], round, {"keep_round": 2}, save="now")
    assert policy.rollback(2, 5, {}).lost == ""
    assert policy.generate(["one?"], 4, 1.0, 12, 5).completions_RG == said.completions_RG


def test_the_round_to_keep_is_not_pruned_until_another_is_named(model_dir: Path, tmp_path: Path) -> None:
    policy = after_rounds(model_dir, tmp_path, 6, keep_round=2)
    assert names(tmp_path) == ["round-00000002", "round-00000005", "round-00000006"]
    policy.update([], 7, {"keep_round": 6}, save="now")
    assert names(tmp_path) == ["round-00000006", "round-00000007"]


def test_a_restart_after_it_goes_on_from_the_earlier_weights(model_dir: Path, tmp_path: Path) -> None:
    policy = after_rounds(model_dir, tmp_path, 4, keep_round=2)
    policy.rollback(2, 5, {"round": 5, "keep_round": 2})
    again = service(model_dir, checkpoints=tmp_path)
    info = again.start()
    assert (info.resumed_from, info.state["round"], info.policy_version) == ("round-00000005", 5, 5)
    assert same(parameters(again), parameters(policy))
    assert same(moments(again), moments(policy))


@pytest.mark.parametrize("step", ["load_checkpoint", "write_tensors", "replace"])
def test_a_kill_on_the_way_resumes_the_newest_and_can_go_back_again(
    model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    class Killed(BaseException):
        """Nothing catches it, as nothing catches a SIGKILL."""

    def killed(*args: Any, **options: Any) -> Any:
        raise Killed

    policy = after_rounds(model_dir, tmp_path, 4, keep_round=2)
    with monkeypatch.context() as patch:
        if step == "load_checkpoint":
            patch.setattr("swarmd.policy.service.load_checkpoint", killed)
        elif step == "write_tensors":
            patch.setattr(weights, "write_tensors", killed)
        else:
            patch.setattr(Path, "rename", killed)
            patch.setattr(os, "rename", killed)
            patch.setattr(os, "replace", killed)
        with pytest.raises(Killed):
            policy.rollback(2, 5, {"round": 5, "keep_round": 2})
    again = service(model_dir, checkpoints=tmp_path)
    info = again.start()
    assert (info.resumed_from, info.state["keep_round"]) == ("round-00000004", 2)
    again.rollback(2, 5, {"round": 5, "keep_round": 2})
    assert same(parameters(again), parameters(started(model_dir, checkpoints=tmp_path)))


@pytest.mark.parametrize("what", ["missing", "damaged", "of another model"])
def test_a_checkpoint_that_cannot_be_used_changes_nothing(model_dir: Path, tmp_path: Path, what: str) -> None:
    policy = after_rounds(model_dir, tmp_path, 3, keep_round=1)
    path = checkpoints.path_of(tmp_path, 1)
    if what == "missing":
        shutil.rmtree(path)
    elif what == "damaged":
        file = path / checkpoints.MODEL_FILE
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
    else:
        policy._model_name = "another"
    before = parameters(policy), moments(policy)
    with pytest.raises(StateError):
        policy.rollback(1, 4, {})
    assert same(parameters(policy), before[0])
    assert same(moments(policy), before[1])
    assert policy.about().policy_version == 3


def test_a_full_disk_costs_the_checkpoint_and_not_the_way_back(
    model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = after_rounds(model_dir, tmp_path, 2)
    good = parameters(policy)
    policy.update([own_rollout(policy, "bad?", seed=9)], 3, {"keep_round": 2}, save="now")

    def full(*args: Any, **options: Any) -> str:
        raise DiskFull("no space")

    monkeypatch.setattr(checkpoints, "save", full)
    answer = policy.rollback(2, 4, {})
    assert same(parameters(policy), good)
    assert answer.saved.failure.kind == "DiskFull"


def test_without_checkpoints_there_is_nothing_to_go_back_to(model_dir: Path) -> None:
    with pytest.raises(StateError, match="nothing to go back to"):
        started(model_dir).rollback(1, 2, {})
