"""Attention of packed rows, block by block, on CUDA against one call with a dense mask on the CPU: equal outputs and gradients."""

import torch
from torch import Tensor, nn

from swarmd.policy.update.attention import layout_of, prompt_sharing_attention
from swarmd.policy.update.packing import Segment, members_of
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
    "two rollouts of 8 x 249": rollouts(2, 300, 8, 249),
    "short answers": rollouts(20, 60, 8, 3),
    "long answers": rollouts(1, 301, 2, 1111),
}


def outcome(row: tuple[Segment, ...], device: str, dtype: torch.dtype, dense_tokens_max: int) -> list[Tensor]:
    """Output and gradients, in float32 on the CPU."""
    torch.manual_seed(0)
    shapes = [(1, heads, row[-1].stop, DIM) for heads in (HEADS, KEY_HEADS, KEY_HEADS)]
    states = [torch.randn(shape).to(device, dtype).requires_grad_() for shape in shapes]
    layout = layout_of(
        row,
        *(torch.tensor(numbers, device=device) for numbers in members_of(row)),
        dense_tokens_max=dense_tokens_max,
    )
    out, _ = prompt_sharing_attention(nn.Module(), *states, None, layout=layout)
    return [one.float().cpu() for one in (out, *torch.autograd.grad(out, states, out.detach()))]


class AttentionOnCuda(GpuCase):
    def test_every_block_sees_what_one_dense_mask_shows(self) -> None:
        for dtype, limit in ((torch.float32, 1e-3), (torch.bfloat16, 4e-2)):
            for name, row in ROWS.items():
                with self.subTest(row=name, dtype=dtype):
                    found = outcome(row, DEVICE, dtype, dense_tokens_max=160)
                    wanted = outcome(row, "cpu", torch.float32, dense_tokens_max=row[-1].stop)
                    pairs = zip(found, wanted, strict=True)
                    apart = [((one - other).norm() / other.norm()).item() for one, other in pairs]
                    self.report(f"{name}, {dtype}: largest difference {max(apart):.1e}")
                    self.assertTrue(all(one < limit for one in apart), apart)
