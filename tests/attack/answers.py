"""What an attacker knows as well as anybody: the question behind an address, and its right answer."""

from collections.abc import Iterator
from dataclasses import dataclass

from swarmd.protocol.manifest import Manifest
from swarmd.questions.regenerate import DatasetChoice, QuestionSource


@dataclass(frozen=True)
class Solved:
    """One question that is not held out, by its address under the author's name, and its right answer."""

    dataset: int
    counter: int
    answer: str


class Answers:
    """Regenerates questions of one manifest, of the datasets that have an oracle."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._sources = [
            QuestionSource(DatasetChoice(spec.name, dict(spec.params), spec.reward))
            for spec in manifest.datasets
        ]

    def of(self, author: bytes, datasets: list[int], counter: int = 0) -> Iterator[Solved]:
        """Solved questions of an author, dataset by dataset in turn, counting up from `counter`."""
        while True:
            for dataset in datasets:  # of those with an oracle
                item = self._sources[dataset].item(self._manifest.question_seed(author, dataset, counter))
                if item["answer"] and not self._manifest.is_held_out(self._manifest.render(item["question"])):
                    yield Solved(dataset, counter, item["answer"])
                counter += 1
