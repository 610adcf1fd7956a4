"""Ask: questions of the contributor's own, drawn as a node draws its own, remembered before they are shown."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from swarmd.contribute.ledger import Ledger
from swarmd.errors import ConfigError, LocalError
from swarmd.loops.ports import SCORER_HANG_S, Caller
from swarmd.loops.streams import Streams
from swarmd.protocol.manifest import Manifest

# At most half of all questions are held out (`Manifest.held_out_per_mille`): so many batches mean a dataset without any others.
BATCHES_MAX = 100


class Question(NamedTuple):
    """A question at its address, with the text that a model of the swarm reads."""

    dataset: int
    counter: int
    prompt: str


def datasets_named(manifest: Manifest, names: Sequence[str]) -> list[int]:
    """Numbers of the datasets with these names, of all without any. Raises ConfigError for a name that the swarm does not have."""
    known = {dataset.name for dataset in manifest.datasets}
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(
            f"the swarm {manifest.name} has no dataset {unknown[0]!r:.60}",
            f"it has {', '.join(sorted(known))}",
            "name some of these with --tasks",
        )
    return [number for number, dataset in enumerate(manifest.datasets) if not names or dataset.name in names]


async def draw_questions(
    num: int,
    *,
    datasets: Sequence[int],
    reserve: Callable[[int], int],
    ledger: Ledger,
    scorer: Caller,
    manifest: Manifest,
    author: bytes,
    streams: Streams,
    deadline_s: float,
) -> list[Question]:
    """`num` new questions, none of them held out, each on disk as asked.

    Args:
        datasets: the numbers of those to draw from, by the manifest's weights.
        reserve: gives out counters that were never given out before (`QuestionCounter.reserve`). One that is lost between here and
            the ledger is a gap, which nobody minds.

    Raises:
        LocalError: none but held-out questions come.
    """
    weights = [manifest.datasets[dataset].weight for dataset in datasets]
    questions: list[Question] = []
    for _ in range(BATCHES_MAX):
        first = reserve(num - len(questions))
        drawn = [
            (streams.rng("dataset", counter).choices(datasets, weights)[0], counter)
            for counter in range(first, first + num - len(questions))
        ]
        items = [[dataset, manifest.question_seed(author, dataset, counter)] for dataset, counter in drawn]
        answer = await scorer.call("questions", items=items, within_s=deadline_s + SCORER_HANG_S)
        questions += [
            Question(dataset, counter, prompt)
            for (dataset, counter), prompt, held_out in zip(
                drawn, answer["prompts"], answer["held_out"], strict=True
            )
            if not held_out
        ]
        if len(questions) == num:
            ledger.ask(manifest.digest, [(question.dataset, question.counter) for question in questions])
            return questions
    raise LocalError(
        f"only {len(questions)} of {num} questions can be trained on after {BATCHES_MAX} tries",
        "the others are held out for evaluation",
        "name other datasets with --tasks",
    )
