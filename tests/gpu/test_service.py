"""The whole policy process's service on CUDA: the embedded policy generates, updates, writes a checkpoint and resumes from it."""

import tempfile
from pathlib import Path
from typing import Any

from swarmd.experience.rollouts import ScoredCompletion, ScoredRollout
from tests.gpu.case import DEVICE, GpuCase
from tests.policy.settings import config

PROMPTS = ["Spell this word backward (example: sun -> nus): dup\n"] * 4


def started(device: str, checkpoints: Path | None = None) -> Any:
    from swarmd.policy.service import PolicyService
    from swarmd.tiny import model_dir

    service = PolicyService(
        lambda event: None,
        roles=["generate", "update"],
        model_dir=str(model_dir()),
        device=device,
        config=config(model="tiny", learning_rate=1e-3).model_dump_json(),
        checkpoints_dir=str(checkpoints) if checkpoints else None,
    )
    service.start()
    return service


def rollout(service: Any) -> ScoredRollout:
    """A rollout whose first completion alone is rewarded."""
    (completions,) = service.generate(PROMPTS[:1], 8, 1.0, 16, 0).completions_RG
    scored = [
        ScoredCompletion(
            c.text, c.finished, float(i == 0), c.token_ids, c.logprob_sum, c.num_tokens, c.token_logps
        )
        for i, c in enumerate(completions)
    ]
    return ScoredRollout(bytes(32), 5, 0, PROMPTS[0], tuple(scored), 0, 0, external=False)


class ServiceOnCuda(GpuCase):
    needs = ("msgpack",)

    def test_generation_keeps_its_form_and_repeats_with_its_seed(self) -> None:
        service = started(DEVICE)
        first, second = (service.generate(PROMPTS, 8, 1.0, 16, 7).completions_RG for _ in range(2))
        self.assertEqual(first, second)
        self.assertTrue(all(c.num_tokens <= 16 for completions in first for c in completions))

    def test_an_update_agrees_with_the_cpus(self) -> None:
        cpu, gpu = started("cpu"), started(DEVICE)
        trained_on = rollout(cpu)
        stats = [
            service.update([trained_on], round=1, state={}, save="no").to_record() for service in (cpu, gpu)
        ]
        self.assertIsNone(stats[1]["skipped"])
        self.report(f"gradient norm {stats[0]['grad_norm']:.4f} on the CPU, {stats[1]['grad_norm']:.4f} here")
        self.assertAlmostEqual(stats[0]["loss"], stats[1]["loss"], delta=2e-2 * abs(stats[0]["loss"]) + 1e-4)
        self.assertAlmostEqual(
            stats[0]["grad_norm"], stats[1]["grad_norm"], delta=2e-2 * stats[0]["grad_norm"]
        )

    def test_a_checkpoint_of_the_gpu_resumes_there(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            service = started(DEVICE, Path(folder))
            service.update([rollout(service)], round=1, state={"round": 1}, save="now")
            again = started(DEVICE, Path(folder))
            self.assertEqual(again.about().policy_version, 1)
            sampled = [one.generate(PROMPTS, 2, 1.0, 16, 3).completions_RG for one in (service, again)]
            self.assertEqual(sampled[0], sampled[1])
