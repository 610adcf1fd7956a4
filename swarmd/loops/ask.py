"""Ask: draw questions of our own, none of them held out.

Question counters are reserved on disk before they are used, so no crash makes the node answer one question twice under two sets of
completions.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from swarmd.loops.ports import SCORER_HANG_S, Caller, RunBlocking
from swarmd.loops.streams import Streams
from swarmd.protocol.manifest import Manifest


@dataclass(frozen=True)
class Question:
    """A question of ours: its address and its text."""

    dataset: int
    counter: int
    seed: int
    prompt: str


@dataclass
class Ask:
    """Where the node's questions come from."""

    scorer: Caller
    manifest: Manifest
    author: bytes
    streams: Streams
    reserve_counters: Callable[[int], int]
    run_blocking: RunBlocking
    deadline_s: float

    async def questions(self, num: int) -> list[Question]:
        """The next `num` questions; counters whose question is held out are skipped."""
        questions: list[Question] = []
        while len(questions) < num:
            num_missing = num - len(questions)
            first = await self.run_blocking(self.reserve_counters, num_missing)
            drawn = [
                (choose_dataset(self.manifest, self.streams.rng("dataset", counter)), counter)
                for counter in range(first, first + num_missing)
            ]
            items = [
                [dataset, self.manifest.question_seed(self.author, dataset, counter)]
                for dataset, counter in drawn
            ]
            answer = await self.scorer.call(
                "questions", items=items, within_s=self.deadline_s + SCORER_HANG_S
            )
            questions += [
                Question(dataset, counter, item[1], prompt)
                for (dataset, counter), item, prompt, held_out in zip(
                    drawn, items, answer["prompts"], answer["held_out"], strict=True
                )
                if not held_out
            ]
        return questions


def choose_dataset(manifest: Manifest, rng: random.Random) -> int:
    """A dataset number, drawn by the manifest's weights."""
    weights = [dataset.weight for dataset in manifest.datasets]
    return rng.choices(range(len(weights)), weights)[0]
