"""Flex attention for a packed row on CUDA: one kernel where `attention.py` makes a call a block. Used only where it is faster.

Per size class the first real row decides: both ways run on its own states, forward and backward, and flex attention is taken
when it gives the same result sooner. A row that it refuses (no compiler, no Triton, a head size) is done block by block.
"""

import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from swarmd.policy.update.packing import Segment, token_places

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]

TILE = 128  # flex attention's block; a row is padded to a multiple, so that one compiled kernel serves every length
CHUNK = 8 * TILE  # rows of the mask that exist at once while its tiles are counted
# Compiling takes tens of seconds, once a process. Rows below are over before their kernels are launched, whatever they are.
ROW_TOKENS_MIN = 512
NUM_TRIALS = 5
# Relative difference of outputs and gradients. Two orders of summation differ by less, a wrong mask by 0.1 and more.
TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 4e-2, torch.float16: 1e-2}

# Exceptions of a compiler that is missing or gives up; torch's own are RuntimeErrors. Out of memory is one as well: the trial must
# not end an update.
REFUSALS = (
    RuntimeError,
    NotImplementedError,
    ValueError,
    TypeError,
    AttributeError,
    AssertionError,
    ImportError,
    OSError,
    subprocess.SubprocessError,
)


@dataclass(frozen=True)
class Choice:
    """How rows of one size class are done, and why in words."""

    flex: bool
    why: str


# By device, precision, heads and size class; asked again in each process, since neither drivers nor libraries stay as they are.
_choices: dict[tuple[object, ...], Choice] = {}


def choices() -> tuple[str, ...]:
    """The decisions so far, a line for each size class."""
    return tuple(choice.why for choice in _choices.values())


class FlexRow:
    """One packed row's mask, and the choice of who computes its attention.

    Args:
        segments: where each group's prompt and completions lie; end to end they are the row.
        num_blocks: calls that the other way makes; belongs to the size class.
    """

    def __init__(self, segments: Sequence[Segment], num_blocks: int, device: torch.device) -> None:
        self.num_tokens = segments[-1].stop
        self._num_padding = -self.num_tokens % TILE
        self._size_class = (self.num_tokens.bit_length(), num_blocks.bit_length())
        self._group_T, self._member_T = token_places(segments, device, self._num_padding)
        self._mask: BlockMask | None = (
            None  # built when first asked for: most rows of a class that lost never need it
        )

    def chosen(
        self, otherwise: Attend, query: Tensor, key: Tensor, value: Tensor, scaling: float | None
    ) -> Attend:
        """Flex attention or `otherwise`, whichever was faster at this row's size class, tried on these states if need be."""
        kind = (query.device, query.dtype, query.shape[1], key.shape[1], query.shape[3], *self._size_class)
        if kind not in _choices:
            _choices[kind] = self._try(otherwise, query, key, value, scaling)
        if not _choices[kind].flex:
            return otherwise

        def attend(*states: Tensor) -> Tensor:
            try:
                return self.attend(*states, scaling=scaling, run=_compiled())
            except REFUSALS as refusal:
                if isinstance(refusal, torch.OutOfMemoryError):
                    raise
                _choices[kind] = Choice(False, f"refused later: {_said(refusal)}")
                return otherwise(*states)

        return attend

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, *, scaling: float | None, run: Callable[..., Tensor]
    ) -> Tensor:
        """Attention of the row, (1, heads, T, dim) in and out; fewer key heads than query heads are shared out.

        Args:
            run: `flex_attention`, compiled or not.
        """
        # Always in one memory layout, or the kernel would be compiled for each.
        wide = self._num_padding
        states = (F.pad(one, (0, 0, 0, wide)) if wide else one.contiguous() for one in (query, key, value))
        out = run(
            *states, block_mask=self._block_mask(), scale=scaling, enable_gqa=query.shape[1] != key.shape[1]
        )
        return out[:, :, : self.num_tokens]

    def _try(
        self, otherwise: Attend, query: Tensor, key: Tensor, value: Tensor, scaling: float | None
    ) -> Choice:
        where = f"{self.num_tokens} tokens, {query.shape[1]} heads, {query.dtype}"

        def flex(*states: Tensor) -> Tensor:
            return self.attend(*states, scaling=scaling, run=_compiled())

        try:
            wanted, blocks_s = _measure(otherwise, query, key, value)
            found, flex_s = _measure(flex, query, key, value)
        except REFUSALS as refusal:
            return Choice(False, f"block by block at {where}: flex attention refuses, {_said(refusal)}")
        differences = [_difference(one, other) for one, other in zip(found, wanted, strict=True)]
        figures = f"{1e3 * flex_s:.2f} ms against {1e3 * blocks_s:.2f} block by block at {where}, difference {sum(differences):.0e}"
        if not all(apart <= TOLERANCE.get(query.dtype, 0.0) for apart in differences):  # NaN is neither
            return Choice(False, f"flex attention is wrong here: {figures}")
        return Choice(flex_s < blocks_s, f"flex attention {figures}")

    def _block_mask(self) -> "BlockMask":
        if self._mask is None:
            self._mask = _block_mask(self._group_T, self._member_T)
        return self._mask


def flex_row(segments: Sequence[Segment], num_blocks: int, device: torch.device) -> FlexRow | None:
    """A row for which flex attention may be tried: on CUDA, and not a short one."""
    if device.type != "cuda" or segments[-1].stop < ROW_TOKENS_MIN:
        return None
    return FlexRow(segments, num_blocks, device)


def _block_mask(group_T: Tensor, member_T: Tensor) -> "BlockMask":
    """The tiles that are seen in part and those seen whole, counted a stretch of rows at a time."""
    from torch.nn.attention.flex_attention import BlockMask

    def sees(batch: Tensor, head: Tensor, q: Tensor, k: Tensor) -> Tensor:
        own = (member_T[k] == 0) | (member_T[k] == member_T[q])
        return (k <= q) & (group_T[k] == group_T[q]) & own

    place_T = torch.arange(len(group_T), device=group_T.device)
    counted = [
        sees(place_T, place_T, rows[:, None], place_T[None])
        .view(len(rows) // TILE, TILE, len(place_T) // TILE, TILE)
        .sum((1, 3))
        for rows in torch.split(place_T, CHUNK)
    ]
    seen_QK = torch.cat(counted)
    whole_QK = seen_QK == TILE * TILE
    return BlockMask.from_kv_blocks(
        *_listed((seen_QK > 0) & ~whole_QK), *_listed(whole_QK), BLOCK_SIZE=TILE, mask_mod=sees
    )


def _listed(tiles_QK: Tensor) -> tuple[Tensor, Tensor]:
    """How many tiles of each row, and their columns first of all, as flex attention wants them: (1, 1, Q) and (1, 1, Q, K)."""
    columns = torch.argsort(tiles_QK.int(), dim=-1, descending=True, stable=True)
    return tiles_QK.sum(-1).int()[None, None], columns.int().contiguous()[None, None]


@cache
def _compiled() -> Callable[..., Tensor]:
    """`dynamic`, or the second length would be compiled anew; `fullgraph`, or it would quietly go on uncompiled."""
    from torch.nn.attention.flex_attention import flex_attention

    compiled: Callable[..., Tensor] = torch.compile(flex_attention, dynamic=True, fullgraph=True)
    return compiled


def _measure(attend: Attend, *states: Tensor) -> tuple[list[Tensor], float]:
    """Output and gradients on copies of `states`, and the best time in seconds of both together after a warm-up."""
    best_s = float("inf")
    # Within a checkpointed layer, the hooks that belong to it must not see what the trial saves.
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda saved: saved, lambda saved: saved)
    with torch.enable_grad(), hooks:
        inputs = [one.detach().clone().requires_grad_() for one in states]
        for trial in range(1 + NUM_TRIALS):
            _synchronise(inputs[0])
            started = time.perf_counter()
            out = attend(*inputs)
            gradients = torch.autograd.grad(out, inputs, out.detach())
            _synchronise(out)
            if trial:
                best_s = min(best_s, time.perf_counter() - started)
    return [out.detach(), *gradients], best_s


def _synchronise(tensor: Tensor) -> None:
    if tensor.is_cuda:
        torch.cuda.synchronize(tensor.device)


def _difference(one: Tensor, other: Tensor) -> float:
    return float(((one - other).float().norm() / other.float().norm()).item())


def _said(refusal: BaseException) -> str:
    return f"{type(refusal).__name__}: {str(refusal).strip().partition(chr(10))[0][:160]}"
