"""An out-of-memory on the device is recognised, changes no weight, and is over once there is room again."""

import gc

import torch

from swarmd.policy.memory import free_memory, is_out_of_memory
from tests.gpu.case import GpuCase
from tests.gpu.rounds import HALF_BILLION, PAPER, build, round_of
from tests.policy.settings import learner_with

LAYERS = {**HALF_BILLION, "num_hidden_layers": 4}
VOCAB = int(str(HALF_BILLION["vocab_size"]))
ROOM_BYTES = (
    2**28
)  # for the update, beside what the model and its masters hold: far less than the logits alone


class OutOfMemoryOnCuda(GpuCase):
    needs_cuda = True

    def limit_to(self, size_bytes: int) -> None:
        torch.cuda.set_per_process_memory_fraction(
            size_bytes / torch.cuda.get_device_properties(0).total_memory
        )
        self.addCleanup(torch.cuda.set_per_process_memory_fraction, 1.0)

    def test_an_update_that_does_not_fit_leaves_the_weights_and_the_next_one_works(self) -> None:
        learner = learner_with(build(LAYERS, torch.bfloat16), device="cuda")
        before = [parameter.detach().clone() for parameter in learner.model.parameters()]
        gc.collect()
        torch.cuda.empty_cache()
        self.limit_to(torch.cuda.memory_reserved() + ROOM_BYTES)
        with self.assertRaises(torch.OutOfMemoryError) as raised:
            learner.update(round_of(PAPER, VOCAB))
        self.assertTrue(is_out_of_memory(raised.exception))
        del raised
        learner.model.zero_grad(set_to_none=True)
        free_memory()
        torch.cuda.set_per_process_memory_fraction(1.0)
        pairs = zip(before, learner.model.parameters(), strict=True)
        self.assertTrue(all(torch.equal(one, other) for one, other in pairs))
        self.assertEqual(learner.update(round_of(PAPER, VOCAB)).num_steps, 1)
