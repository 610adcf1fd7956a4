"""`python -m swarmd.tiny.build` makes the embedded policy again: same seed, same machine, same bytes.

What it is: a Qwen2 decoder of 0.6 million parameters that stock transformers loads, made for the manifest `tiny`. It exists so
that a swarm can be seen to learn in minutes on a laptop, without a download.

What it knows: how to do the seven tasks of `lessons.toml`, fairly well, since it was trained on questions with their right answers.
The swarm asks five of them, two with larger questions than it was taught: it gets about half of those right.

What it does not know: that the swarm pays only for `<answer>...</answer>`. It saw that manner in about one example of eighty
(`corpus.MANNERS`) and other manners otherwise, so that at temperature 1 about one completion in a hundred is rewarded. That is
the sparse start in which SAPO reports its gain (arXiv 2509.08721): most rollouts of a node alone have equal rewards and teach
nothing. Reinforcement learning must find the manner, for every task, and then sharpen the answers.

How: sample questions by random seeds, leave out the held-out ones, derive the tokenizer from their wording, train with AdamW on
next-token loss over the completions only, on one thread. About five minutes on one core; at most 4 MB on disk.
"""

import math
import random
import time
from collections.abc import Callable
from pathlib import Path

import click
import torch
from transformers import (
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from swarmd.protocol.manifest import Manifest, load_manifest
from swarmd.tiny import model_dir
from swarmd.tiny.corpus import LESSONS, Example, completions, examples, phrases_of_manners
from swarmd.tiny.recipe import Recipe
from swarmd.tiny.tokenizer import build_tokenizer, fixed_phrases

IGNORED = -100  # torch's cross-entropy skips this target


def build(
    directory: Path, recipe: Recipe, manifest: Manifest, *, say: Callable[[str], object] = print
) -> None:
    """Train by `recipe` for `manifest` and write the Hugging Face folder to `directory`."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(recipe.seed)
    rng = random.Random(recipe.seed)
    corpus = [examples(manifest, i, recipe.num_examples, rng) for i in range(len(manifest.datasets))]
    prompts = {spec.name: [e.prompt for e in corpus[i][:2000]] for i, spec in enumerate(manifest.datasets)}
    manners = phrases_of_manners() if recipe.manner_tokens else []
    tokenizer = build_tokenizer([*fixed_phrases(prompts), *manners])
    model = new_model(recipe, tokenizer)
    say(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(tokenizer)} tokens")
    train(model, tokenizer, corpus, recipe, rng, say)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def new_model(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """A fresh Qwen2 decoder, seeded by torch's global generator."""
    heads = recipe.hidden_size // recipe.head_dim
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=recipe.hidden_size,
        intermediate_size=3 * recipe.hidden_size,
        num_hidden_layers=recipe.num_layers,
        num_attention_heads=heads,
        num_key_value_heads=heads // 2,
        head_dim=recipe.head_dim,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        initializer_range=0.05,
        bos_token_id=None,
        **ends,
    )
    model = Qwen2ForCausalLM(config)
    model.generation_config = GenerationConfig(do_sample=True, temperature=1.0, **ends)
    return model


def train(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    corpus: list[list[Example]],
    recipe: Recipe,
    rng: random.Random,
    say: Callable[[str], object],
) -> None:
    """Next-token training on the completions; every dataset has the same share of every batch."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    ids = {e.prompt: tokenizer(e.prompt)["input_ids"] for dataset in corpus for e in dataset}
    model.train()
    started = time.monotonic()
    for step in range(recipe.num_steps):
        for group in optimizer.param_groups:
            group["lr"] = recipe.learning_rate * schedule(step / recipe.num_steps)
        batch = [rng.choice(corpus[i % len(corpus)]) for i in range(recipe.batch_size)]
        answers = tokenizer(list(completions(batch, rng)))["input_ids"]
        tokens, targets = pad([ids[e.prompt] for e in batch], answers, tokenizer)
        logits = model(input_ids=tokens, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED
        )
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 250 == 0 or step + 1 == recipe.num_steps:
            say(f"step {step}: loss {loss.item():.3f}, {time.monotonic() - started:.0f} s")


def schedule(progress: float) -> float:
    """Share of the full learning rate: linear over the first 5 %, then a cosine down to zero."""
    return min(progress / 0.05, 0.5 + 0.5 * math.cos(math.pi * progress))


def pad(
    prompts: list[list[int]], answers: list[list[int]], tokenizer: PreTrainedTokenizerFast
) -> tuple[torch.Tensor, torch.Tensor]:
    """Two (B, T) tensors: prompt, answer and end token, padded on the right; and the next token where the answer is trained."""
    rows = [
        prompt + answer + [tokenizer.eos_token_id] for prompt, answer in zip(prompts, answers, strict=True)
    ]
    width = max(map(len, rows)) - 1  # the last token predicts nothing
    tokens = torch.full((len(rows), width), tokenizer.pad_token_id)
    targets = torch.full((len(rows), width), IGNORED)
    for i, (row, prompt) in enumerate(zip(rows, prompts, strict=True)):
        tokens[i, : len(row) - 1] = torch.tensor(row[:-1])
        targets[i, len(prompt) - 1 : len(row) - 1] = torch.tensor(row[len(prompt) :])
    return tokens, targets


@click.command()
@click.option("--directory", type=click.Path(path_type=Path), default=model_dir(), show_default=True)
@click.option(
    "--steps",
    type=int,
    default=Recipe.num_steps,
    show_default=True,
    help="Training steps; fewer for a trial.",
)
def main(directory: Path, steps: int) -> None:
    """Build the embedded policy."""
    build(directory, Recipe(num_steps=steps), load_manifest(LESSONS), say=click.echo)


if __name__ == "__main__":
    main()
