"""vLLM on CUDA, where it is installed: it samples by its seed, takes new weights, sleeps and wakes."""

import tempfile
from pathlib import Path
from typing import Any

import torch

from swarmd.policy.generation.engine import Sampling
from swarmd.policy.generation.transformers_engine import TransformersEngine
from tests.gpu.case import GpuCase

GREEDY, DRAWN = Sampling(1, 0.0, 16, 1), Sampling(4, 1.0, 16, 7)
PROMPTS = [[5, 6, 7, 8], [9, 10, 11, 12, 13]]


class VllmOnCuda(GpuCase):
    needs = ("vllm",)
    needs_cuda = True

    def setUp(self) -> None:
        super().setUp()
        from swarmd.policy.generation.vllm_engine import VllmEngine
        from swarmd.policy.state.shapes import ModelShapes
        from tests.policy.folders import build_folder

        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.model_dir = build_folder(
            Path(folder.name) / "model", hidden=256
        )  # heads of 64, which CUDA kernels want
        self.engine = VllmEngine(
            self.model_dir,
            device="cuda",
            shapes=ModelShapes.of_folder(self.model_dir),
            eos_ids=[0, 2],
            batch_tokens_max=4096,
            context_tokens_max=256,
            can_sleep=True,
            can_share=True,
        )
        self.addCleanup(self.close)

    def close(self) -> None:
        from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

        self.engine._engine.engine_core.shutdown()
        cleanup_dist_env_and_memory()

    def ids(self, engine: Any, sampling: Sampling) -> list[list[list[int]]]:
        return [[sampled.ids for sampled in row] for row in engine.generate(PROMPTS, sampling)]

    def live(self) -> Any:
        """The transformers model of the folder with other weights than the engine began with."""
        from swarmd.policy.model.loading import load_model

        model = load_model(self.model_dir, "cuda")
        with torch.no_grad():
            for number, parameter in enumerate(model.parameters()):
                generator = torch.Generator().manual_seed(number)
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator).to(parameter))
        return model

    def is_compiled_and_captured(self) -> None:
        from vllm.compilation.counter import compilation_counter

        self.report(f"{compilation_counter.num_cudagraph_captured} CUDA graphs")
        self.assertGreater(compilation_counter.num_backend_compilations, 0)
        self.assertGreater(compilation_counter.num_cudagraph_captured, 0)

    def test_it_takes_new_weights_sleeps_and_wakes(self) -> None:
        from swarmd.policy.state.weights import named_tensors

        self.is_compiled_and_captured()
        model = self.live()
        own = TransformersEngine(
            model, eos_ids=[0, 2], pad_id=0, batch_tokens_max=4096, context_tokens_max=256
        )
        before, wanted = self.ids(self.engine, GREEDY), self.ids(own, GREEDY)
        self.assertNotEqual(before, wanted)
        self.engine.load_weights(named_tensors(model), 1)
        found = self.ids(self.engine, GREEDY)
        first = [rows[0][0] for rows in found] == [rows[0][0] for rows in wanted]
        self.assertTrue(first, "the first token of each prompt under the new weights")
        same = sum(one == other for one, other in zip(found, wanted, strict=True))
        self.report(
            f"greedy after a weight push: {same} of {len(wanted)} prompts as transformers has them, token for token"
        )
        drawn = [self.ids(self.engine, DRAWN) for _ in range(2)]
        self.assertEqual(drawn[0], drawn[1])
        held = torch.cuda.mem_get_info()[0]
        self.assertTrue(self.engine.sleep())
        freed = torch.cuda.mem_get_info()[0] - held
        self.report(f"asleep: {freed / 2**20:.0f} MiB given back")
        self.assertGreater(freed, 0)
        self.engine.load_weights(named_tensors(model), 2)
        self.assertEqual(self.ids(self.engine, GREEDY), found)
        self.shares_weights_and_sleeps_without_them(model, own)

    def shares_weights_and_sleeps_without_them(self, model: Any, own: TransformersEngine) -> None:
        """In the same engine: a process has room for one with an allocator that sleeps."""
        from swarmd.policy.generation.shared_weights import bind

        self.assertEqual(bind(model, self.engine.tensors()), "")
        self.engine.keeps_weights = False
        places = [tensor.data_ptr() for tensor in self.engine.tensors().values()]
        before = self.ids(self.engine, GREEDY)
        adam = torch.optim.AdamW(model.parameters(), lr=0.05, fused=True)
        ids = torch.tensor([PROMPTS[0]], device="cuda")
        model(ids, labels=ids).loss.backward()
        adam.step()
        held = torch.cuda.mem_get_info()[0]
        self.assertFalse(self.engine.sleep())  # no weight went with the cache
        freed = torch.cuda.mem_get_info()[0] - held
        self.report(f"asleep with shared weights: {freed / 2**20:.0f} MiB given back")
        self.assertGreater(freed, 0)
        found, wanted = self.ids(self.engine, GREEDY), self.ids(own, GREEDY)
        self.assertNotEqual(found, before)
        self.assertEqual([rows[0][0] for rows in found], [rows[0][0] for rows in wanted])
        self.assertEqual([tensor.data_ptr() for tensor in self.engine.tensors().values()], places)
