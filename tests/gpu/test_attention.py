"""Flex attention compiled on CUDA against the calls block by block: equal results, and which was taken at which size."""

import torch
from torch import Tensor, nn

from swarmd.policy.update import attention_flex
from swarmd.policy.update.attention import AttentionLayout, layout_of, prompt_sharing_attention
from swarmd.policy.update.packing import Segment
from tests.gpu.case import DEVICE, GpuCase

HEADS, KEY_HEADS, DIM = 14, 2, 64  # Qwen2.5-0.5B


def rollouts(num: int, prompt: int, completions: int, length: int) -> tuple[Segment, ...]:
    found, start = [], 0
    for _ in range(num):
        stop = start + prompt
        places = tuple(slice(stop + n * length, stop + (n + 1) * length) for n in range(completions))
        found.append(Segment(slice(start, stop), places))
        start = places[-1].stop
    return tuple(found)


ROWS = {
    "one rollout of 8 x 249": rollouts(1, 300, 8, 249),
    "two of 8 x 249": rollouts(2, 300, 8, 249),
    "short answers": rollouts(60, 60, 8, 3),
    "long answers": rollouts(1, 301, 4, 1111),
}


class AttentionOnCuda(GpuCase):
    needs_cuda = True

    def states(self, row: tuple[Segment, ...], dtype: torch.dtype) -> list[Tensor]:
        torch.manual_seed(0)
        shapes = [(1, heads, row[-1].stop, DIM) for heads in (HEADS, KEY_HEADS, KEY_HEADS)]
        return [torch.randn(shape, device=DEVICE, dtype=dtype) for shape in shapes]

    def by_block(self, row: tuple[Segment, ...]) -> attention_flex.Attend:
        layout = AttentionLayout(layout_of(row, torch.device(DEVICE)).blocks)
        return lambda *qkv: prompt_sharing_attention(nn.Module(), *qkv, None, layout=layout)[0].transpose(
            1, 2
        )

    def test_compiled_flex_attention_equals_the_calls_block_by_block(self) -> None:
        for dtype, limit in ((torch.float32, 1e-3), (torch.bfloat16, 4e-2)):
            for name, row in ROWS.items():
                with self.subTest(row=name, dtype=dtype):
                    flex = attention_flex.FlexRow(row, 1, torch.device(DEVICE))
                    run = attention_flex._compiled()
                    given = self.states(row, dtype)
                    found, flex_s = attention_flex._measure(
                        lambda *qkv, flex=flex, run=run: flex.attend(*qkv, scaling=None, run=run), *given
                    )
                    wanted, blocks_s = attention_flex._measure(self.by_block(row), *given)
                    apart = [attention_flex._difference(*pair) for pair in zip(found, wanted, strict=True)]
                    self.report(
                        f"{name}, {dtype}: {row[-1].stop} tokens, flex {1e3 * flex_s:.2f} ms, "
                        f"by block {1e3 * blocks_s:.2f} ms, largest difference {max(apart):.1e}"
                    )
                    self.assertTrue(all(one < limit for one in apart), apart)

    def test_the_faster_one_is_taken_and_the_reason_is_kept(self) -> None:
        attention_flex._choices.clear()
        for row in ROWS.values():
            layout = layout_of(row, torch.device(DEVICE))
            self.assertIsNotNone(layout.flex)
            prompt_sharing_attention(nn.Module(), *self.states(row, torch.bfloat16), None, layout=layout)
        for line in attention_flex.choices():
            self.report(line)
            self.assertNotIn("refuses", line)
            self.assertNotIn("wrong", line)
