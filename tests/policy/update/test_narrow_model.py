"""The accelerator's arithmetic on a CPU: a bfloat16 model whose optimizer works on float32 masters, through the whole service."""

from pathlib import Path
from typing import Any

import pytest
import torch

from swarmd.policy.service import PolicyService
from tests.policy.services import own_rollout, parameters, service, started


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarmd.policy.model.loading.dtype_of", lambda _: torch.bfloat16)


def update(policy: PolicyService, wire: dict[str, Any], number: int, *, checkpoint: bool = False) -> None:
    policy.update([wire], round=number, state={"round": number}, save="now" if checkpoint else "no")


@pytest.mark.usefixtures("narrow")
def test_small_steps_are_not_rounded_away_by_a_restart(model_dir: Path, tmp_path: Path) -> None:
    first = started(model_dir, checkpoints=tmp_path, learning_rate=1e-5)
    wire = own_rollout(first, "one?")
    update(first, wire, 1, checkpoint=True)
    second = service(model_dir, checkpoints=tmp_path, learning_rate=1e-5)
    assert second.start().policy_version == 1
    for number in range(2, 8):
        update(first, wire, number)
        update(second, wire, number)
    left, right = parameters(first), parameters(second)
    assert all(tensor.dtype == torch.bfloat16 for tensor in left.values())
    assert all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.usefixtures("narrow")
def test_a_narrow_generator_takes_a_narrow_learners_weights(model_dir: Path, tmp_path: Path) -> None:
    learner, generator = started(model_dir, roles=("update",)), started(model_dir, roles=("generate",))
    update(learner, own_rollout(generator, "one?"), 1)
    generator.load_weights(*learner.publish_weights(str(tmp_path)))
    again = learner._model, generator._model
    assert all(torch.equal(a, b) for a, b in zip(*(m.parameters() for m in again), strict=True))
    assert generator.generate(["one?"], 4, 1.0, 12, 1).num_completion_tokens > 0
