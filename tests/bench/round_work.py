"""A round's work at half a billion parameters: the model's folder, questions, and what others answer."""

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from swarmd.clients.policy import Generated
from swarmd.experience.rollouts import ScoredCompletion, ScoredRollout
from tests.policy.services import rollout, scored
from tests.policy.test_half_billion import BUILD, SHAPE

# As deep as Qwen2.5-0.5B, so that a count by layer would show, and narrow: counts do not depend on widths.
NARROW = SHAPE | {"vocab_size": 320, "hidden_size": 56, "intermediate_size": 64}


def save_model(folder: Path, shape: dict[str, Any]) -> str:
    """A policy folder with random weights."""
    subprocess.run([sys.executable, "-c", BUILD, str(folder), json.dumps(shape)], check=True)
    return str(folder)


def external_answers(prompts: Sequence[str], num_completions: int, words: int) -> list[list[str]]:
    """Answers of others, so many words each; equal arguments give equal answers."""
    rng = random.Random(1)
    known = " ".join(prompts).split()
    return [[" ".join(rng.choices(known, k=words)) for _ in range(num_completions)] for _ in prompts]


def training_set(
    prompts: Sequence[str], made: Generated, external_RG: Sequence[Sequence[str]]
) -> list[ScoredRollout]:
    """Own and external rollouts on the same questions. Every second completion is right, so that all are trained on."""
    own = [
        rollout(prompt, [scored(one, float(place % 2)) for place, one in enumerate(row)], counter=counter)
        for counter, (prompt, row) in enumerate(zip(prompts, made.completions_RG, strict=True))
    ]
    others = [
        rollout(
            prompt,
            [ScoredCompletion(text, True, float(place % 2)) for place, text in enumerate(texts)],
            counter=counter,
            external=True,
        )
        for counter, (prompt, texts) in enumerate(zip(prompts, external_RG, strict=False))
    ]
    return [*own, *others]
