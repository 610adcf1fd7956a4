"""Ask: draw questions of our own, none of them held out.

Question counters are reserved on disk before they are used, so no crash makes the node answer one question twice under two sets of
completions.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from swarmd.clients.scorer import Address, Scorer
from swarmd.errors import ConfigError
from swarmd.experience.seeds import Seeds
from swarmd.loops.ports import RunBlocking
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
    """Where the node's questions come from. `datasets` are the numbers of those it asks; all of the manifest's when empty."""

    scorer: Scorer
    manifest: Manifest
    author: bytes
    seeds: Seeds
    reserve_counters: Callable[[int], int]
    run_blocking: RunBlocking
    datasets: Sequence[int] = ()

    async def questions(self, num: int) -> list[Question]:
        """The next `num` questions; counters whose question is held out are skipped."""
        questions: list[Question] = []
        while len(questions) < num:
            num_missing = num - len(questions)
            first = await self.run_blocking(self.reserve_counters, num_missing)
            drawn = [
                (choose_dataset(self.manifest, self.seeds.rng("dataset", counter), self.datasets), counter)
                for counter in range(first, first + num_missing)
            ]
            addresses = [
                Address(dataset, self.manifest.question_seed(self.author, dataset, counter))
                for dataset, counter in drawn
            ]
            made = await self.scorer.questions(addresses)
            questions += [
                Question(address.dataset, counter, address.seed, prompt)
                for (_, counter), address, prompt, held_out in zip(
                    drawn, addresses, made.prompts, made.held_out, strict=True
                )
                if not held_out
            ]
        return questions


def choose_dataset(manifest: Manifest, rng: random.Random, among: Sequence[int] = ()) -> int:
    """A dataset number, drawn by the manifest's weights, of those in `among` (of all, when that is empty)."""
    numbers = among or range(len(manifest.datasets))
    return rng.choices(numbers, [manifest.datasets[number].weight for number in numbers])[0]


def datasets_named(manifest: Manifest, names: Sequence[str]) -> list[int]:
    """Numbers of the datasets with these names, of all without any. Raises ConfigError for a name that the swarm does not have."""
    known = {dataset.name for dataset in manifest.datasets}
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(
            f"the swarm {manifest.name} has no dataset {unknown[0]!r:.60}",
            f"it has {', '.join(sorted(known))}",
            "name some of these",
        )
    return [number for number, dataset in enumerate(manifest.datasets) if not names or dataset.name in names]
