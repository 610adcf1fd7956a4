"""Prompt-sharing attention: in one packed row each completion sees its own prompt and itself, and nothing else.

Registered with transformers under `PROMPT_SHARING`; the row's `AttentionLayout` travels through the model's keyword arguments.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface

from swarmd.policy.packing import Segment

PROMPT_SHARING = "swarmd_prompt_sharing"

# One call over a whole span with a dense mask wastes arithmetic on masked pairs, many calls waste time in dispatch.
DENSE_TOKENS_MAX = 1024

# Keyword arguments that change attention in ways the packed row does not reproduce.
FOREIGN_TERMS = ("softcap", "s_aux", "position_bias", "cache")


class UnsupportedAttention(ValueError):
    """The model's attention has a term that the packed row does not reproduce."""


@dataclass(frozen=True)
class Block:
    """One attention call: these queries against those keys. `visible_QK` None means plainly causal."""

    queries: slice
    keys: tuple[slice, ...]
    visible_QK: Tensor | None


@dataclass(frozen=True)
class AttentionLayout:
    """Blocks whose queries, end to end, are the whole row."""

    blocks: tuple[Block, ...]


def plan_attention(
    segments: Sequence[Segment],
    num_tokens: int,
    device: torch.device,
    *,
    dense_tokens_max: int = DENSE_TOKENS_MAX,
) -> AttentionLayout:
    """Choose the calls for a row: one for all of it when it is short, else one a group, or one a completion of long groups."""
    if num_tokens <= dense_tokens_max:
        return AttentionLayout((_dense(segments, device),))
    blocks: list[Block] = []
    for segment in segments:
        stop = segment.completions[-1].stop
        if stop - segment.prompt.start <= dense_tokens_max:
            blocks.append(_dense([segment], device))
            continue
        blocks.append(Block(segment.prompt, (segment.prompt,), None))
        blocks.extend(
            _one_completion(segment.prompt, own, device)
            for own in segment.completions
            if own.stop > own.start
        )
    return AttentionLayout(tuple(blocks))


def _dense(segments: Sequence[Segment], device: torch.device) -> Block:
    """All tokens of the given (adjacent) segments against each other: causal, same group, and prompt or same completion."""
    group, member = [], []
    for number, segment in enumerate(segments):
        group.extend([number] * (segment.completions[-1].stop - segment.prompt.start))
        member.extend([0] * (segment.prompt.stop - segment.prompt.start))
        for place, own in enumerate(segment.completions, start=1):
            member.extend([place] * (own.stop - own.start))
    group_T, member_T = torch.tensor(group, device=device), torch.tensor(member, device=device)
    visible = (member_T[None, :] == 0) | (member_T[None, :] == member_T[:, None])
    visible &= group_T[None, :] == group_T[:, None]
    span = slice(segments[0].prompt.start, segments[-1].completions[-1].stop)
    return Block(span, (span,), visible.tril_())


def _one_completion(prompt: slice, own: slice, device: torch.device) -> Block:
    num_prompt, num_own = prompt.stop - prompt.start, own.stop - own.start
    visible = torch.ones(num_own, num_prompt + num_own, dtype=torch.bool, device=device).tril_(num_prompt)
    return Block(own, (prompt, own), visible)


def prompt_sharing_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    layout: AttentionLayout,
    scaling: float | None = None,
    **foreign: Any,
) -> tuple[Tensor, None]:
    """Attention of one packed row, (1, heads, T, dim) in and (1, T, heads, dim) out, as transformers' interface wants it.

    Raises:
        UnsupportedAttention: the model passes a term that this function would silently drop.
    """
    for name in FOREIGN_TERMS:
        if foreign.get(name) is not None:
            raise UnsupportedAttention(f"attention uses {name}")
    repeats = query.shape[1] // key.shape[1]
    if repeats > 1:
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    outputs = []
    for block in layout.blocks:
        outputs.append(
            F.scaled_dot_product_attention(
                query[:, :, block.queries],
                _pick(key, block.keys),
                _pick(value, block.keys),
                attn_mask=block.visible_QK,
                is_causal=block.visible_QK is None,
                scale=scaling,
            )
        )
    joined = outputs[0] if len(outputs) == 1 else torch.cat(outputs, 2)
    return joined.transpose(1, 2), None


def _pick(states: Tensor, places: tuple[slice, ...]) -> Tensor:
    if len(places) == 1:
        return states[:, :, places[0]]
    return torch.cat([states[:, :, place] for place in places], 2)


def _no_mask(**_: Any) -> None:
    """The layout says who sees whom; transformers need not build a mask."""


AttentionInterface.register(PROMPT_SHARING, prompt_sharing_attention)
AttentionMaskInterface.register(PROMPT_SHARING, _no_mask)


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
