"""Rows of different lengths side by side in one buffer a layer, written in place; rows may join and leave at any step.

A row's keys lie at its positions 0, 1, 2 …, so who sees whom is a comparison of positions, and no padding lies between tokens.
With one query a row, the query heads that share a key head are taken as so many queries of it: no key is ever repeated.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface, Cache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from swarmd.policy.fast_paths import UnsupportedAttention, refuse_foreign_terms
from swarmd.policy.generation.decoder import Decoder, Prefilled

SLOTS = "swarmd_slots"

# Buffers grow by half of what they are, and by at least so many positions. Growing copies them: by a tenth, that would be seen in
# a long completion; by as much again, half of the memory may lie idle.
_GROW_TOKENS_MIN = 64


class SlotCache(Cache):  # type: ignore[misc]
    """A cache for the model: keys and values of each layer, (slots, heads, positions, dim) each.

    Shapes, types and sliding windows are those of `prefilled`, any cache of the model.

    Raises:
        UnsupportedAttention: a layer keeps another state than keys and values, or chunks them.
    """

    def __init__(self, prefilled: Prefilled, num_slots: int, chunked: bool = False) -> None:
        super().__init__(layers=[])
        self.num_slots = num_slots
        self.length = 0
        self.windows: list[int | None] = []
        self._buffers: list[tuple[Tensor, Tensor]] = []
        for layer in prefilled.cache.layers:
            if type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer) or chunked:
                raise UnsupportedAttention(f"a layer keeps its past in a {type(layer).__name__}")
            self.windows.append(layer.sliding_window if layer.is_sliding else None)
            self._buffers.append((self._zeros(layer.keys), self._zeros(layer.values)))

    def _zeros(self, like: Tensor) -> Tensor:
        return like.new_zeros(self.num_slots, like.shape[1], 0, like.shape[3])

    def reserve(self, length: int) -> None:
        """Have room for positions below `length`. Positions that no row has written are zero: a mask does not hide a NaN."""
        if length <= self.length:
            return
        self.length = max(length, self.length + max(self.length // 2, _GROW_TOKENS_MIN))
        for number, pair in enumerate(self._buffers):
            keys, values = (F.pad(old, (0, 0, 0, self.length - old.shape[2])) for old in pair)
            self._buffers[number] = keys, values

    def write_prompt(self, slot: int, prefilled: Prefilled, owner: int) -> None:
        """Copy one prompt's past; of a windowed layer there is only the last part, and no more is needed."""
        stop = prefilled.lengths[owner]
        for (keys, values), layer in zip(self._buffers, prefilled.cache.layers, strict=True):
            start = max(0, stop - layer.keys.shape[2])
            keys[slot, :, start:stop] = layer.keys[owner, :, start - stop :]
            values[slot, :, start:stop] = layer.values[owner, :, start - stop :]

    def move(self, source: int, target: int, length: int) -> None:
        """Copy a row's first `length` positions to another slot."""
        for buffers in self._buffers:
            for buffer in buffers:
                buffer[target, :, :length] = buffer[source, :, :length]

    def begin_step(self, positions_R: Tensor, longest: int) -> Tensor:
        """Say where the rows' next tokens belong, the last of them at `longest`; those positions as a column (rows, 1)."""
        self.reserve(longest + 1)
        self._width = min(-(-(longest + 1) // 8) * 8, self.length)  # kernels like multiples of 8
        self._rows_R = torch.arange(len(positions_R), device=positions_R.device)
        self._positions_R = positions_R
        columns = torch.arange(self._width, device=positions_R.device)
        last = self._positions_R[:, None]
        past = columns <= last
        self._visible = {
            window: (past if window is None else past & (columns > last - window))[:, None, None]
            for window in set(self.windows)
        }
        return last

    def visible(self, layer: int) -> Tensor:
        """Which positions each row's next token attends to in a layer, (rows, 1, 1, positions)."""
        return self._visible[self.windows[layer]]

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Write one token a row; the rows' keys and values, up to the longest."""
        keys, values = self._buffers[layer_idx]
        keys[self._rows_R, :, self._positions_R] = key_states[:, :, 0]
        values[self._rows_R, :, self._positions_R] = value_states[:, :, 0]
        rows = len(self._rows_R)
        return keys[:rows, :, : self._width], values[:rows, :, : self._width]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Positions that the present step can see."""
        return self._width


def slot_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    slots: SlotCache,
    scaling: float | None = None,
    **foreign: object,
) -> tuple[Tensor, None]:
    """Attention of one query a row, (rows, heads, 1, dim) in and (rows, 1, heads, dim) out, as transformers' interface wants it.

    Raises:
        UnsupportedAttention: see `refuse_foreign_terms`.
    """
    refuse_foreign_terms(foreign)
    num_rows, num_heads, _, dim = query.shape
    num_key_heads = key.shape[1]
    grouped = query.reshape(num_rows, num_key_heads, num_heads // num_key_heads, dim)
    visible = slots.visible(int(module.layer_idx))  # type: ignore[arg-type]
    output = F.scaled_dot_product_attention(grouped, key, value, attn_mask=visible, scale=scaling)
    return output.reshape(num_rows, 1, num_heads, -1), None


# Without a mask function of that name transformers builds no mask, which is right: `slots` knows.
AttentionInterface.register(SLOTS, slot_attention)


class SlotRows:
    """See `rows.Rows`; at most `num_slots` rows at a time, of which `keep` copies only those that move."""

    refills = True

    def __init__(self, decoder: Decoder, num_slots: int) -> None:
        self._decoder = decoder
        self._num_slots = num_slots
        self._cache: SlotCache | None = None
        self._lengths: list[int] = []

    def append(self, prefilled: Prefilled, owners: Sequence[int]) -> None:
        if self._cache is None:
            kinds = getattr(self._decoder.model.config.get_text_config(), "layer_types", None) or ()
            self._cache = SlotCache(prefilled, self._num_slots, chunked="chunked_attention" in kinds)
        self._cache.reserve(max(prefilled.lengths[owner] for owner in owners) + 1)
        for owner in owners:
            self._cache.write_prompt(len(self._lengths), prefilled, owner)
            self._lengths.append(prefilled.lengths[owner])

    def keep(self, order: Sequence[int]) -> None:
        assert self._cache is not None, "there are no rows"
        for target, source in enumerate(order):
            if source != target:
                assert source > target, "a row must not be overwritten before it has moved"
                self._cache.move(source, target, self._lengths[source])
        self._lengths = [self._lengths[row] for row in order]

    def forward(self, tokens_R: Tensor, positions_R: Tensor) -> Tensor:
        assert self._cache is not None, "there are no rows"
        column = self._cache.begin_step(positions_R, max(self._lengths))
        self._lengths = [length + 1 for length in self._lengths]
        ids = tokens_R[:, None]
        self._decoder.use_attention(SLOTS)
        return self._decoder.call(
            ids,
            self._cache,
            position_ids=column,
            attention_mask=torch.ones_like(ids),  # some warn without one; none is built from it
            slots=self._cache,
        )
