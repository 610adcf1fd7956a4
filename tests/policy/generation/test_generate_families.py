"""Other decoders than Qwen2: learned positions, sliding windows, soft caps; batched generation is the naive loop."""

from typing import Any

import pytest
import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from swarmd.policy.generation.engine import Sampling
from tests.policy.generation.test_generate import engine, ids, naive

SHAPE = {
    "vocab_size": 60,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "initializer_range": 0.2,
}
FAMILIES = {
    "gpt2, learned positions": lambda: GPT2LMHeadModel(
        GPT2Config(vocab_size=60, n_embd=32, n_layer=2, n_head=4, n_positions=128, initializer_range=0.2)
    ),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE)),
    "mistral, sliding window": lambda: MistralForCausalLM(MistralConfig(**SHAPE, sliding_window=6)),
    "gemma2, alternating windows and soft caps": lambda: Gemma2ForCausalLM(
        Gemma2Config(**SHAPE, sliding_window=6)
    ),
    "qwen3, normalised queries": lambda: Qwen3ForCausalLM(Qwen3Config(**SHAPE)),
}
PROMPTS = [[5, 6, 7, 8, 9, 10, 11, 12], [13, 14], [15]]


@pytest.mark.parametrize("build", FAMILIES.values(), ids=FAMILIES)
def test_batched_generation_is_the_naive_loop(build: Any) -> None:
    torch.manual_seed(0)
    model = build().eval()
    sampling = Sampling(num_completions=4, temperature=1.0, tokens_max=16, seed=1)
    found = engine(model, context=128).generate(PROMPTS, sampling)
    assert ids(found) == ids(naive(model, PROMPTS, sampling))
    assert {sampled.finished for row in found for sampled in row} == {True, False}
