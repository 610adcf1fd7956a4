"""One round of the policy on a GPU, against the same round on the CPU."""

from pathlib import Path
from typing import Any

import pytest
import torch

from swarmd.policy.service import PolicyService
from swarmd.tiny import model_dir

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device"),
]
PROMPTS = ["Spell this word backward (example: sun -> nus): dup\n"] * 4


def started(device: str, checkpoints: Path | None = None) -> PolicyService:
    service = PolicyService(
        lambda name, data: None,
        roles=["generate", "update"],
        model_dir=str(model_dir()),
        device=device,
        threads=0,
        settings={"model": "tiny", "learning_rate": 1e-3, "tokens_max": 16},
        checkpoints_dir=str(checkpoints) if checkpoints else None,
    )
    service.start()
    return service


def rollout(service: PolicyService) -> dict[str, Any]:
    """A rollout whose first completion alone is rewarded."""
    (completions,) = service.generate(PROMPTS[:1], 8, 1.0, 16, 0)["completions_RG"]
    return {
        "author": bytes(32),
        "dataset": 5,
        "counter": 0,
        "prompt": PROMPTS[0],
        "completions": [{**c, "reward": float(i == 0)} for i, c in enumerate(completions)],
        "created_ms": 0,
        "policy_version": 0,
        "external": False,
    }


def test_generation_keeps_its_form_and_repeats_with_its_seed() -> None:
    service = started("cuda")
    first, second = (service.generate(PROMPTS, 8, 1.0, 16, 7)["completions_RG"] for _ in range(2))
    assert first == second
    assert all(c["num_tokens"] <= 16 for completions in first for c in completions)


def test_an_update_agrees_with_the_cpus() -> None:
    cpu, gpu = started("cpu"), started("cuda")
    trained_on = rollout(cpu)
    stats = [service.update([trained_on], round=1, state={}, checkpoint=False) for service in (cpu, gpu)]
    assert stats[1]["skipped"] is None
    assert stats[0]["loss"] == pytest.approx(stats[1]["loss"], rel=2e-2, abs=1e-4)
    assert stats[0]["grad_norm"] == pytest.approx(stats[1]["grad_norm"], rel=2e-2)


def test_a_checkpoint_of_the_gpu_resumes_there(tmp_path: Path) -> None:
    service = started("cuda", tmp_path)
    service.update([rollout(service)], round=1, state={"round": 1}, checkpoint=True)
    assert started("cuda", tmp_path).info()["policy_version"] == 1
