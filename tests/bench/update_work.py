"""What the update benchmarks train and on what: random models of three sizes and seeded rounds of 8 questions x 8 completions."""

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen2Config
from transformers.utils import logging

from swarmd.policy.update.packing import TokenCompletion, TokenRollout

logging.disable_progress_bar()  # the benchmarks print tables
TINY_POLICY = Path(__file__).parents[2] / "swarmd" / "tiny" / "model"
EOS, FIRST_WORD = 0, 2

# Layers, hidden and intermediate size, heads, key and value heads, vocabulary.
SHAPES = {
    "0.9M": (4, 128, 384, 4, 2, 1024),
    "39M": (8, 512, 1408, 8, 2, 32000),
    "0.5B": (24, 896, 4864, 14, 2, 151936),  # Qwen2.5-0.5B's
}


def build_model(shape: str) -> PreTrainedModel:
    """A Qwen2 of one of `SHAPES` with seeded random weights in float32, or the embedded policy for "tiny"."""
    if shape == "tiny":
        return AutoModelForCausalLM.from_pretrained(TINY_POLICY, dtype=torch.float32)
    return _random_model(shape)


def _random_model(shape: str, vocabulary: int | None = None) -> PreTrainedModel:
    layers, hidden, intermediate, heads, key_heads, usual = SHAPES[shape]
    config = Qwen2Config(
        num_hidden_layers=layers,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        vocab_size=vocabulary or usual,
        tie_word_embeddings=True,
        max_position_embeddings=4096,
    )
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32)


def save_policy(folder: Path) -> None:
    """A policy folder: the "0.9M" shape with random weights and the embedded policy's tokenizer.

    Each token drawn ends its completion with probability 1 in 35 (8 of 278 ids are end tokens, all about equally likely), so
    that lengths are as mixed as a real round's.
    """
    shutil.copytree(TINY_POLICY, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.safetensors"))
    tiny = AutoModelForCausalLM.from_pretrained(TINY_POLICY)
    model = _random_model("0.9M", tiny.config.vocab_size)
    model.generation_config = tiny.generation_config
    model.generation_config.eos_token_id = [EOS, *range(tiny.config.vocab_size - 7, tiny.config.vocab_size)]
    model.save_pretrained(folder)


@dataclass(frozen=True)
class Work:
    """A round's shape: token counts are uniform for prompts, log-normal for completions, cut at the longest.

    Attributes:
        prompts: shortest and longest prompt.
        completion_median, completion_spread: of the log-normal; its upper tail is cut at `completion_max` and has no EOS.
        informative: of the 8 rollouts, how many have rewards that are not all equal.
    """

    prompts: tuple[int, int] = (40, 120)
    completion_median: float = 32
    completion_spread: float = 0.7
    completion_min: int = 8
    completion_max: int = 128
    informative: int = 8


def build_round(
    work: Work, vocab_size: int, *, questions: int = 8, completions: int = 8
) -> list[TokenRollout]:
    """The same rollouts for the same work. Rewards are 0 or 1, advantages divided by the rollout's spread as in TRL."""
    rng = random.Random(1)
    rollouts = []
    for question in range(questions):
        prompt = tuple(rng.randrange(FIRST_WORD, vocab_size) for _ in range(rng.randint(*work.prompts)))
        successes = rng.randint(1, completions - 1) if question < work.informative else 0
        rewards_G = torch.tensor([1.0] * successes + [0.0] * (completions - successes))
        advantages_G = (rewards_G - rewards_G.mean()) / (rewards_G.std() + 1e-4)
        rollouts.append(
            TokenRollout(prompt, tuple(_completion(work, vocab_size, a, rng) for a in advantages_G.tolist()))
        )
    return rollouts


def _completion(work: Work, vocab_size: int, advantage: float, rng: random.Random) -> TokenCompletion:
    num = round(work.completion_median * rng.lognormvariate(0, work.completion_spread))
    finished = num <= work.completion_max
    words = [
        rng.randrange(FIRST_WORD, vocab_size)
        for _ in range(min(max(num, work.completion_min), work.completion_max) - finished)
    ]
    return TokenCompletion((*words, *([EOS] * finished)), advantage, finished=finished)
