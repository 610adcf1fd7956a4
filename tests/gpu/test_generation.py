"""Generation by the transformers engine on CUDA: the seed decides, and log-probs are the model's."""

import random
import time

import torch

from swarmd.policy.generation.engine import Sampled, Sampling
from swarmd.policy.generation.transformers_engine import TransformersEngine
from tests.gpu.case import DEVICE, GpuCase, synchronise
from tests.gpu.rounds import REAL_SHAPE, TOY, build

VOCAB = int(str(TOY["vocab_size"]))
PROMPTS = [[random.Random(number).randrange(1, VOCAB) for _ in range(5 + 3 * number)] for number in range(4)]


def engine(dtype: torch.dtype, *, device: str = DEVICE) -> TransformersEngine:
    return TransformersEngine(
        build(TOY, dtype, device=device, spread=0.15),
        eos_ids=[0],
        pad_id=0,
        batch_tokens_max=4096,
        context_tokens_max=512,
    )


def ids(sampled_RG: list[list[Sampled]]) -> list[list[list[int]]]:
    return [[sampled.ids for sampled in row] for row in sampled_RG]


class GenerationOnCuda(GpuCase):
    def test_equal_seeds_give_equal_completions_and_others_do_not(self) -> None:
        for dtype in (torch.float32, torch.bfloat16):
            made = [ids(engine(dtype).generate(PROMPTS, Sampling(8, 1.0, 24, seed))) for seed in (7, 7, 8)]
            self.assertEqual(made[0], made[1])
            self.assertNotEqual(made[0], made[2])

    def test_in_float32_the_cpu_samples_the_same(self) -> None:
        sampling = Sampling(8, 1.0, 24, 7)
        rows = [
            [
                one
                for row in ids(engine(torch.float32, device=device).generate(PROMPTS, sampling))
                for one in row
            ]
            for device in ("cpu", DEVICE)
        ]
        same = sum(one == other for one, other in zip(*rows, strict=True))
        self.report(f"{same} of {len(rows[0])} completions equal the CPU's token for token")
        # A draw within rounding of a boundary may fall on the other side and change everything after it.
        self.assertGreaterEqual(same, 0.9 * len(rows[0]))

    def test_log_probs_are_those_of_the_model(self) -> None:
        made, model = engine(torch.float32), build(TOY, torch.float32, spread=0.15)
        for prompt, row in zip(PROMPTS, made.generate(PROMPTS, Sampling(2, 0.6, 12, 3)), strict=True):
            for sampled in row:
                whole = torch.tensor([[*prompt, *sampled.ids]], device=DEVICE)
                with torch.no_grad():
                    logits = model(whole[:, :-1]).logits[0, len(prompt) - 1 :].double() / 0.6
                wanted = torch.log_softmax(logits, -1).gather(-1, whole[0, len(prompt) :, None])[:, 0]
                self.assertLess((wanted.cpu() - torch.tensor(sampled.logps)).abs().max().item(), 1e-3)

    def test_how_fast_half_a_billion_parameters_generate(self) -> None:
        model = build(REAL_SHAPE, torch.bfloat16)
        own = TransformersEngine(
            model, eos_ids=[0], pad_id=0, batch_tokens_max=32768, context_tokens_max=4096
        )
        prompts = [PROMPTS[number % 4] * 20 for number in range(8)]
        own.generate(prompts[:1], Sampling(1, 1.0, 4, 0))
        synchronise()
        started = time.perf_counter()
        made = own.generate(prompts, Sampling(8, 1.0, 64, 1))
        synchronise()
        num_tokens = sum(len(sampled.ids) for row in made for sampled in row)
        self.report(
            f"transformers engine: {num_tokens / (time.perf_counter() - started):,.0f} tokens/s at 8 x 8"
        )
        self.assertGreater(num_tokens, 0)
