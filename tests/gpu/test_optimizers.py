"""Every kind of optimizer on CUDA: it takes the CPU's AdamW's step (LoRA its own), and goes on from what it saved."""

import torch

from swarmd.optimizers import OPTIMIZER
from swarmd.policy.update.learner import Learner
from tests.gpu.case import DEVICE, GpuCase, missing
from tests.gpu.rounds import SMALL, TOY, build, round_of
from tests.gpu.test_learner import VOCAB, changes, difference, snapshot
from tests.policy.settings import learner_with

SETTINGS = {"learning_rate": 1e-3, "adam_eps": 1e-3, "micro_batch_tokens": 96}
# Of a whole update's weight changes, against AdamW on the CPU. Eight bits cost an embedding 4 to 7 % (optimizers/adam_8bit.py).
LIMITS = {"adamw": 1e-3, "host": 1e-3, "adam-8bit": 0.15}


def learner(optimizer: str, device: str = DEVICE, dtype: torch.dtype = torch.float32) -> Learner:
    model = build({**TOY, "hidden_size": 128, "intermediate_size": 256}, dtype, device=device, spread=0.15)
    return learner_with(model, optimizer=optimizer, device=device, **SETTINGS)


class OptimizersOnCuda(GpuCase):
    def require(self, optimizer: str) -> None:
        if lacking := missing(OPTIMIZER[optimizer].package):
            self.skipTest(f"not installed: {', '.join(lacking)}")

    def steps_as_adamw_on_the_cpu(self, optimizer: str) -> None:
        self.require(optimizer)
        moves = []
        for one in (learner("adamw", "cpu"), learner(optimizer)):
            before = snapshot(one.model)
            for seed in range(2):
                self.assertEqual(one.update(round_of(SMALL, VOCAB, seed=seed)).num_steps, 1)
            moves.append(changes(one, before))
        apart = difference(moves[1], moves[0])
        self.report(f"two updates with {optimizer}: {apart:.1e} from AdamW's on the CPU")
        self.assertLess(apart, LIMITS[optimizer])

    def goes_on(self, optimizer: str) -> None:
        self.require(optimizer)
        for dtype in (torch.float32, torch.bfloat16):
            first, again = learner(optimizer, dtype=dtype), learner(optimizer, dtype=dtype)
            first.update(round_of(SMALL, VOCAB))
            saved = {key: tensor.cpu().clone() for key, tensor in first.optimizer_tensors().items()}
            if again.needs_weights(saved):
                again.model.load_state_dict(first.model.state_dict())
                again.weights_changed()
            self.assertEqual(again.load_optimizer_tensors(saved), "")
            before = snapshot(first.model)
            losses = [one.update(round_of(SMALL, VOCAB, seed=1)).loss for one in (first, again)]
            apart = difference(changes(again, before), changes(first, before))
            self.report(f"{optimizer}, {dtype}: the update after going on differs by {apart:.1e}")
            self.assertAlmostEqual(losses[0], losses[1], delta=1e-3)
            self.assertLess(apart, 1e-2 if dtype == torch.float32 else 0.1)

    def test_adamw_steps_as_on_the_cpu(self) -> None:
        self.steps_as_adamw_on_the_cpu("adamw")

    def test_the_optimizer_on_the_host_steps_as_adamw(self) -> None:
        self.steps_as_adamw_on_the_cpu("host")

    def test_8_bit_adam_steps_nearly_as_adamw(self) -> None:
        self.steps_as_adamw_on_the_cpu("adam-8bit")

    def test_adamw_goes_on(self) -> None:
        self.goes_on("adamw")

    def test_the_optimizer_on_the_host_goes_on(self) -> None:
        self.goes_on("host")

    def test_8_bit_adam_goes_on(self) -> None:
        self.goes_on("adam-8bit")

    def test_lora_goes_on(self) -> None:
        self.goes_on("lora")

    def test_lora_trains_its_adapters_alone(self) -> None:
        self.require("lora")
        one = learner("lora", dtype=torch.bfloat16)
        before = snapshot(one.model)
        self.assertEqual(one.update(round_of(SMALL, VOCAB)).num_steps, 1)
        moved = {name for name, change in changes(one, before).items() if change.norm() > 0}
        self.assertTrue(moved)
        self.assertTrue(all("lora" in name for name in moved), sorted(moved)[:5])
