"""What the host does in a round whatever the device is: messages, scores, tokens, packs, at the sizes of real rounds.

One core, the best of a few. Texts are of this project's pages, and so is the vocabulary: about four characters a token, as Qwen's.
"""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from swarmd.clients.policy import Generated, OwnCompletion
from swarmd.clients.scorer import Address, ScoreItem
from swarmd.experience.rollouts import ScoredRollout
from swarmd.policy.model.tokenise import Tokeniser
from swarmd.policy.training_set import token_rollouts
from swarmd.policy.update.packing import collate, first_fit
from swarmd.policy.update.weighting import weigh
from swarmd.processes.frames import FrameReader, Request, Told, encode_frame
from swarmd.processes.values import typed
from swarmd.protocol.manifest import load_manifest
from swarmd.questions.service import ScorerService
from tests.bench.round_work import training_set
from tests.policy.folders import build_tokenizer
from tests.policy.settings import config

SIZES = (4, 16)  # own questions, and as many external ones
COMPLETIONS, TOKENS_MAX, PROMPT_TOKENS = 8, 256, 300
CONTEXT_TOKENS, MICRO_BATCH = 32768, 4096
REPEATS = 5


def main() -> None:
    """Print a column a size."""
    pages = " ".join(path.read_text() for path in sorted(Path("docs").rglob("*.md")))
    tokeniser = Tokeniser(build_tokenizer(vocab_size=16000, texts=[pages]))
    columns = [dict(measured(tokeniser, pages.split(), num)) for num in SIZES]
    print(
        f"\nThe host's parts in ms, {COMPLETIONS} completions of about {TOKENS_MAX} tokens, prompts of {PROMPT_TOKENS}, one core"
    )
    print(f"{'own/external':<24}" + "".join(f"{f'{num}/{num}':>9}" for num in SIZES))
    for name in columns[0]:
        print(f"{name:<24}" + "".join(f"{1000 * column[name]:9.1f}" for column in columns))


def measured(tokeniser: Tokeniser, words: list[str], questions: int) -> Iterator[tuple[str, float]]:
    """The seconds of each part."""
    rng = random.Random(1)

    def text(num_tokens: int) -> str:
        """Whole words of about so many tokens."""
        ids = tokeniser.completion_ids(
            " ".join(rng.choices(words, k=num_tokens)), finished=False, tokens_max=num_tokens - 4
        )
        return tokeniser.text(ids)

    prompts = [text(PROMPT_TOKENS) for _ in range(questions)]
    own_RG, others_RG = ([[text(TOKENS_MAX) for _ in range(COMPLETIONS)] for _ in prompts] for _ in range(2))
    ids_RG = [
        [tokeniser.completion_ids(one, finished=True, tokens_max=TOKENS_MAX) for one in row] for row in own_RG
    ]
    completions = [
        [
            OwnCompletion(one, True, tuple(ids), -1.0, tuple(0.1 * n for n, _ in enumerate(ids)))
            for one, ids in zip(row, ids_G, strict=True)
        ]
        for row, ids_G in zip(own_RG, ids_RG, strict=True)
    ]
    made = Generated(0, completions, 0, 0.0, 0.0)
    rollouts = training_set(prompts, made, others_RG)
    yield "text of answers", best(lambda: [tokeniser.text(ids) for ids_G in ids_RG for ids in ids_G])
    yield "message: answers", best(lambda: through_socket(Told(1, made), Told, Generated))
    yield "score", scoring(own_RG)
    yield (
        "message: training set",
        best(
            lambda: through_socket(Request(1, "update", {"rollouts": rollouts}), Request, list[ScoredRollout])
        ),
    )
    settings = config(tokens_max=TOKENS_MAX)
    yield "tokenise, advantages", best(lambda: token_rollouts(rollouts, tokeniser, settings, CONTEXT_TOKENS))
    tokens = token_rollouts(rollouts, tokeniser, settings, CONTEXT_TOKENS)
    yield "weights of tokens", best(lambda: weigh(tokens, settings))
    groups = weigh(tokens, settings)
    cpu = torch.device("cpu")
    yield "pack", best(lambda: [collate(pack, cpu, torch.float32) for pack in first_fit(groups, MICRO_BATCH)])


def best(work: Callable[[], object]) -> float:
    """CPU seconds, the best of a few."""
    taken = []
    for _ in range(REPEATS):
        began_s = time.process_time()
        work()
        taken.append(time.process_time() - began_s)
    return min(taken)


def through_socket(message: Request | Told, kind: type[Request] | type[Told], value: Any) -> object:
    """Encoded by one process, decoded by the other."""
    (told,) = FrameReader(kind).feed(encode_frame(message))
    return typed(value, told.value if isinstance(told, Told) else told.args["rollouts"])


def scoring(texts_RG: list[list[str]]) -> float:
    """Wall seconds of the scorer, its sandbox included: its workers are other processes."""
    manifest = load_manifest("reasoning")
    scorer = ScorerService(None, manifest=manifest.to_bytes(), sandbox="best-effort")
    scorer.start()
    items = [ScoreItem(place % len(manifest.datasets), place, texts) for place, texts in enumerate(texts_RG)]
    try:
        taken = []
        for _ in range(REPEATS):
            began_s = time.perf_counter()
            scorer.questions([Address(item.dataset, item.seed) for item in items])
            scorer.score(items, 60.0)
            taken.append(time.perf_counter() - began_s)
        return min(taken)
    finally:
        scorer.close()
