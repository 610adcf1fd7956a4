"""Qwen2.5-0.5B's shape in bfloat16 with float32 masters: the paper's round fits, and how fast it is."""

import time

import torch

from tests.gpu.case import DEVICE, GpuCase, peak_bytes, synchronise
from tests.gpu.rounds import PAPER, REAL_SHAPE, build, round_of
from tests.policy.settings import learner_with

MATRIX = 8192 if DEVICE == "cuda" else 256
NUM_UPDATES = 3


def matrix_rate() -> float:
    """Floating-point operations a second of a large bfloat16 product here: what a share of the peak is a share of."""
    one, other = (torch.randn(MATRIX, MATRIX, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    best = 0.0
    for _ in range(10):
        synchronise()
        started = time.perf_counter()
        for _ in range(4):
            one @ other
        synchronise()
        best = max(best, 4 * 2 * MATRIX**3 / (time.perf_counter() - started))
    return best


class HalfBillion(GpuCase):
    def test_a_round_of_eight_by_eight_fits_and_trains(self) -> None:
        rate = matrix_rate()
        model = build(REAL_SHAPE, torch.bfloat16)
        num_parameters = sum(parameter.numel() for parameter in model.parameters())
        embedding = model.get_input_embeddings().weight
        before = embedding.detach().float().clone()
        learner = learner_with(model, learning_rate=1e-6, device=DEVICE)
        best_s = float("inf")
        for seed in range(NUM_UPDATES):
            rollouts = round_of(PAPER, embedding.shape[0], seed=seed)
            synchronise()
            started = time.perf_counter()
            stats = learner.update(rollouts)
            synchronise()
            best_s = min(best_s, time.perf_counter() - started)
            self.assertEqual((stats.num_steps, stats.skipped), (1, None))
            self.assertTrue(stats.fast_path, stats.self_check)
        # 6 a parameter and token, forward and backward; the head only where something is predicted, the embedding's rows nowhere.
        inner = num_parameters - embedding.numel()
        work = 6 * (inner * stats.num_tokens_forwarded + embedding.numel() * stats.num_tokens_trained)
        self.report(f"{num_parameters / 1e6:.0f} M parameters, self-check: {stats.self_check}")
        self.report(
            f"{stats.num_tokens_forwarded} tokens forwarded and {stats.num_tokens_trained} trained in {best_s:.3f} s: "
            f"{stats.num_tokens_trained / best_s:,.0f} trained tokens/s"
        )
        self.report(
            f"{work / best_s / 1e12:.1f} TFLOP/s, {work / best_s / rate:.0%} of the {rate / 1e12:.0f} measured here"
        )
        self.report(f"peak {peak_bytes() / 2**30:.2f} GiB")
        self.assertFalse(
            torch.equal(learner.optimizer_tensors()["master/model.embed_tokens.weight"].float(), before)
        )
