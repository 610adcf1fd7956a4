"""Random models of given shapes and rounds of given sizes, made in memory: nothing is downloaded."""

import random
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from swarmd.policy.update.packing import TokenCompletion, TokenRollout
from tests.gpu.case import DEVICE, REHEARSAL

TOY = {
    "vocab_size": 300,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
}
# Qwen2.5-0.5B: 494,032,768 parameters, of which 136 M are the tied embedding.
HALF_BILLION = {
    "vocab_size": 151936,
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
}


@dataclass(frozen=True)
class Size:
    """How large a round is. `PAPER` is the one that `UPDATE.md` counts in floating-point operations."""

    num_rollouts: int
    num_completions: int
    prompt_tokens: int
    completion_tokens: int


SMALL = Size(3, 4, 20, 12)
PAPER = Size(8, 8, 300, 250) if not REHEARSAL else SMALL
REAL_SHAPE = HALF_BILLION if not REHEARSAL else TOY


def build(
    shape: dict[str, object], dtype: torch.dtype, *, device: str = DEVICE, spread: float = 0.02
) -> PreTrainedModel:
    """The same random weights on every device for the same arguments.

    Built in `dtype` as a loaded model is: the rotary frequencies stay in float32, which casting afterwards would not leave them.
    """
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        model = Qwen2ForCausalLM(Qwen2Config(**shape, initializer_range=spread))
    finally:
        torch.set_default_dtype(before)
    return model.to(device).eval()


def round_of(size: Size, vocab_size: int, *, seed: int = 0) -> list[TokenRollout]:
    """Every second rollout external; ragged lengths up to those of `size`; every completion has an advantage."""
    rng = random.Random(seed)

    def ids(num_max: int) -> tuple[int, ...]:
        num = num_max - rng.randrange(max(1, num_max // 10))
        return tuple(rng.randrange(1, vocab_size) for _ in range(num))

    return [
        TokenRollout(
            ids(size.prompt_tokens),
            tuple(
                TokenCompletion(ids(size.completion_tokens), rng.choice((-1, 1)) * rng.uniform(0.5, 1.5))
                for _ in range(size.num_completions)
            ),
            external=bool(number % 2),
        )
        for number in range(size.num_rollouts)
    ]
