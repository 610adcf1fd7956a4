"""Prompt-sharing attention: in one packed row each completion sees its own prompt and itself, and nothing else.

Registered with transformers under `PROMPT_SHARING`; the row's `AttentionLayout` travels through the model's keyword arguments.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel

from swarmd.policy.fast_paths import refuse_foreign_terms
from swarmd.policy.update.packing import Segment

PROMPT_SHARING = "swarmd_prompt_sharing"

# Groups of up to this many tokens together are one call with a dense mask, a longer group is a call a completion. One call
# computes pairs that the mask throws away, many wait for dispatch: on one CPU core both cost the same at 140 tokens, the
# dense one 7 % more of the whole update at 280 and 37 % more at 500.
DENSE_TOKENS_MAX = 160


@dataclass(frozen=True)
class Block:
    """One attention call: the queries of a stretch of the row against the keys of some stretches, its own the last.

    `keys` are numbers of blocks. `visible_QK` None means plainly causal.
    """

    num_tokens: int
    keys: tuple[int, ...]
    visible_QK: Tensor | None


AttentionLayout = tuple[Block, ...]  # their stretches, end to end, are the whole row


def layout_of(
    segments: Sequence[Segment],
    groups_T: Tensor,
    members_T: Tensor,
    *,
    dense_tokens_max: int = DENSE_TOKENS_MAX,
) -> AttentionLayout:
    """Choose the calls for a row: short groups together, a long one completion by completion.

    `groups_T` and `members_T`, as `packing.members_of` numbers them, are on the device where the masks are to be.
    """
    blocks: list[Block] = []
    waiting: list[Segment] = []

    def flush() -> None:
        if waiting:
            stretch = slice(waiting[0].prompt.start, waiting[-1].stop)
            blocks.append(_dense(groups_T[stretch], members_T[stretch], len(blocks)))
            waiting.clear()

    for segment in segments:
        if waiting and segment.stop - waiting[0].prompt.start > dense_tokens_max:
            flush()
        if segment.stop - segment.prompt.start <= dense_tokens_max:
            waiting.append(segment)
        else:
            flush()
            blocks.extend(_by_completion(segment, len(blocks), groups_T.device))
    flush()
    return tuple(blocks)


def _dense(group_T: Tensor, member_T: Tensor, number: int) -> Block:
    """All tokens of adjacent segments against each other: causal, same group, and prompt or same completion."""
    visible = (member_T[None, :] == 0) | (member_T[None, :] == member_T[:, None])
    visible &= group_T[None, :] == group_T[:, None]
    return Block(len(group_T), (number,), visible.tril_())


def _by_completion(segment: Segment, number: int, device: torch.device) -> Iterator[Block]:
    num_prompt = segment.prompt.stop - segment.prompt.start
    yield Block(num_prompt, (number,), None)
    lengths = [own.stop - own.start for own in segment.completions if own.stop > own.start]
    for place, num in enumerate(lengths, start=number + 1):
        visible = torch.ones(num, num_prompt + num, dtype=torch.bool, device=device).tril_(num_prompt)
        yield Block(num, (number, place), visible)


def prompt_sharing_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    layout: AttentionLayout,
    scaling: float | None = None,
    **foreign: object,
) -> tuple[Tensor, None]:
    """Attention of one packed row, (1, heads, T, dim) in and (1, T, heads, dim) out, as transformers' interface wants it.

    Raises:
        UnsupportedAttention: see `refuse_foreign_terms`.
    """
    refuse_foreign_terms(foreign)
    grouped = takes_groups(query.device)
    repeats = query.shape[1] // key.shape[1]
    if repeats > 1 and not grouped:
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    # `split` and `cat` have linear backwards; a slice's would fill a whole row of zeros for every block.
    sizes = [block.num_tokens for block in layout]
    queries, keys, values = (torch.split(states, sizes, 2) for states in (query, key, value))
    outputs = [
        F.scaled_dot_product_attention(
            own_query,
            _joined(keys, block.keys),
            _joined(values, block.keys),
            attn_mask=block.visible_QK,
            is_causal=block.visible_QK is None,
            scale=scaling,
            enable_gqa=grouped,
        )
        for own_query, block in zip(queries, layout, strict=True)
    ]
    return _joined(outputs, range(len(outputs))).transpose(1, 2), None


def takes_groups(device: torch.device) -> bool:
    """Whether attention is computed without a copy of each key for every query head that shares it.

    The CPU's kernel takes groups of heads, with a mask too. CUDA's fast kernels do not where there is a mask: PyTorch would fall
    back to one that keeps all scores.
    """
    return device.type == "cpu"


def _joined(states: Sequence[Tensor], numbers: Sequence[int]) -> Tensor:
    return states[numbers[0]] if len(numbers) == 1 else torch.cat([states[number] for number in numbers], 2)


AttentionInterface.register(PROMPT_SHARING, prompt_sharing_attention)


@contextmanager
def prompt_sharing(model: PreTrainedModel) -> Iterator[None]:
    """Use prompt-sharing attention within the block, and give the model its own implementation back afterwards."""
    before = model.config._attn_implementation
    model.set_attn_implementation(PROMPT_SHARING)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def row_length_max(model: PreTrainedModel) -> float:
    """Longest prompt-plus-completion for which a packed row equals a plain one, by the model's config; 0 for never.

    Sliding windows and chunks would need their own masks, rotary embeddings that depend on the row's length would see the
    longest sequence of the pack, and recurrent layers cannot share a prompt at all.
    """
    config = model.config.get_text_config()
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    if rope.get("rope_type", rope.get("type", "default")) in ("dynamic", "longrope"):
        return 0
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if not kinds <= {"full_attention", "sliding_attention"}:
        return 0
    window = getattr(config, "sliding_window", None)
    windowed = "sliding_attention" in kinds or (getattr(config, "layer_types", None) is None and window)
    if windowed and getattr(config, "use_sliding_window", True):
        return float(window) if window else 0
    return float("inf")
