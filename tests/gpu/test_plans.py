"""Measured peak memory against the figure that each plan prints, at Qwen2.5-0.5B's shape: within 10 %."""

import gc
from dataclasses import replace

import torch

from swarmd.config import UpdateSection
from swarmd.policy.plans.choice import price
from swarmd.policy.plans.ladder import Plan, ladder
from swarmd.policy.plans.needs import Where, Work
from swarmd.policy.plans.shape import shape_of
from swarmd.policy.update.learner import Learner
from tests.gpu.case import DEVICE, GpuCase, missing, peak_bytes
from tests.gpu.rounds import HALF_BILLION, PAPER, build, round_of
from tests.policy.settings import config

TOLERANCE = 0.1


class PlansOnCuda(GpuCase):
    """The update's phase, with no engine beside it: the transformers engine holds nothing while the policy is updated."""

    needs_cuda = True

    def setUp(self) -> None:
        super().setUp()
        self.plans = {plan.name: plan for plan in ladder(UpdateSection(), DEVICE, can_sleep=False)}

    def peak_is_as_printed(self, name: str) -> None:
        plan = self.plans[name]
        if lacking := missing(plan.how.kind.package):
            self.skipTest(f"not installed: {', '.join(lacking)}")
        printed, outside = self.printed_bytes(plan)
        learner = Learner(build(HALF_BILLION, torch.bfloat16), config(), plan.how, device=DEVICE)
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        for seed in range(3):
            stats = learner.update(round_of(PAPER, int(str(HALF_BILLION["vocab_size"])), seed=seed))
            self.assertEqual(stats.num_steps, 1)
        tensors, reserved = peak_bytes(), torch.cuda.max_memory_reserved()
        free, total = torch.cuda.mem_get_info()
        context = total - free - torch.cuda.memory_reserved()
        gib = 2**30
        self.report(
            f"{name}: printed {printed / gib:.2f} GiB and {outside / gib:.2f} for the process; measured {tensors / gib:.2f} "
            f"in tensors, {reserved / gib:.2f} reserved, {context / gib:.2f} outside the allocator (whoever holds it)"
        )
        self.assertLess(abs(tensors - printed), TOLERANCE * printed)

    def printed_bytes(self, plan: Plan) -> tuple[int, int]:
        """What the table has for the update: tensors, and the process itself."""
        shape = shape_of({**HALF_BILLION, "model_type": "qwen2"})
        assert shape is not None
        work = replace(Work.of(config(tokens_max=PAPER.completion_tokens)), prompt_tokens=PAPER.prompt_tokens)
        where = Where(DEVICE, "transformers", generates=False)
        (priced,) = price(shape, work, where, (plan,))
        rows = {row.name: row.update_bytes for row in priced.needs.rows}
        outside = rows["process and libraries"]
        return priced.needs.update_bytes - outside, outside

    def test_resident(self) -> None:
        self.peak_is_as_printed("resident")

    def test_checkpointing(self) -> None:
        self.peak_is_as_printed("checkpointing")

    def test_adam_8bit(self) -> None:
        self.peak_is_as_printed("adam-8bit")

    def test_host_optimizer(self) -> None:
        self.peak_is_as_printed("host-optimizer")

    def test_lora(self) -> None:
        self.peak_is_as_printed("lora")
