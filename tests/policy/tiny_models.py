"""Random models and rollouts small enough for exact comparisons."""

import random

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from swarmd.policy.update.packing import TokenCompletion, TokenRollout

torch.set_num_threads(1)  # tiny products: threads only wait for each other
VOCAB, EOS = 300, 0
KINDS = ("qwen-tied", "qwen-untied", "llama")


def build(
    kind: str = "qwen-tied", *, seed: int = 0, dtype: torch.dtype = torch.float32, **config: object
) -> PreTrainedModel:
    """Wide initial weights, so that attention and positions matter and a wrong mask cannot hide."""
    torch.manual_seed(seed)
    shape = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "vocab_size": VOCAB,
        "initializer_range": 0.15,
        "tie_word_embeddings": kind == "qwen-tied",
        **config,
    }
    model = (
        LlamaForCausalLM(LlamaConfig(**shape)) if kind == "llama" else Qwen2ForCausalLM(Qwen2Config(**shape))
    )
    return model.to(dtype)


def rollout(rng: random.Random, *, external: bool = False, num_completions: int = 4) -> TokenRollout:
    """Ragged lengths, one completion of advantage zero, one of a single token; most end with EOS."""
    completions = []
    for number in range(num_completions):
        num = 1 if number == 1 else rng.randint(2, 9)
        ids = [rng.randrange(1, VOCAB) for _ in range(num)]
        finished = number != 2
        if finished:
            ids[-1] = EOS
        advantage = 0.0 if number == 3 else rng.gauss(0, 1)
        completions.append(TokenCompletion(tuple(ids), advantage, finished=finished))
    prompt = tuple(rng.randrange(1, VOCAB) for _ in range(rng.randint(1, 7)))
    return TokenRollout(prompt, tuple(completions), external)


def round_of(seed: int = 0, *, num_local: int = 2, num_external: int = 2) -> list[TokenRollout]:
    rng = random.Random(seed)
    return [rollout(rng, external=number >= num_local) for number in range(num_local + num_external)]
