"""The rewards that a dataset pays for answers that solve nothing: constants, copies of a piece of the question, and tiny programs.

One sample of questions chooses the best answer of each kind, and another sample measures it, so that luck makes no figure.
"""

import contextlib
import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from swarmd.protocol.manifest import Manifest
from swarmd.questions.family import Item
from swarmd.questions.pieces import COPIES, KINDS, PROGRAMS, Answer
from swarmd.questions.regenerate import DatasetChoice, QuestionSource
from swarmd.questions.scorers import score

# Two authors that are nobody's key. A swarm's two samples are its own, and everybody draws the same ones.
CHOSEN_ON, MEASURED_ON = bytes(32), b"\x01" + bytes(31)
# Constants tried: the most frequent answers of the first sample. The best constant so far was never beyond the ninth.
_FREQUENT_MAX = 40
# A kind of question gets a constant of its own when the first sample holds it this often.
_KIND_MIN = 20
_LITERALS = tuple(sign + letter for letter in "PQRSTU" for sign in ("", "¬"))
KNOWN_CONSTANTS = (
    *("", "0", "1", "2", "3", "4", "5", "6", "10", "12", "100", "-1", "0.0", "1/2", "1/3", "2/3"),
    *("Yes", "No", "True", "False", "None", "a", "A", "[]", "[[0]]", "nan", "inf", "0123456789"),
    *("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    *("P∨Q", "P∧Q", "P→Q", "Q→P", "P↔Q", "¬P∨¬Q", "P∨¬P", "P∧¬P"),
    *_LITERALS,
)


HEAD = "| dataset | constant | a constant for each kind of question | copy | program |\n|---|---|---|---|---|"
_SHOWN_MAX = 40


@dataclass(frozen=True)
class Cheap:
    """A way to answer without solving, and its mean reward on the second sample."""

    name: str
    reward: float


@dataclass(frozen=True)
class Row:
    """The best cheap answers to one dataset: always the same, the same for each kind of question, a copy, a program."""

    dataset: str
    constant: Cheap
    by_kind: Cheap
    copy: Cheap
    program: Cheap

    @property
    def highest(self) -> float:
        return max(way.reward for way in (self.constant, self.by_kind, self.copy, self.program))


def cheap_rows(manifest: Manifest, num_questions: int, datasets: Sequence[int] = ()) -> Iterator[Row]:
    """One row for each dataset of the manifest, or for those with these numbers; each sample has `num_questions` questions."""
    for number in datasets or range(len(manifest.datasets)):
        spec = manifest.datasets[number]
        source = QuestionSource(DatasetChoice(spec.name, spec.params, spec.reward))
        paid = _Paid(manifest, source, number, num_questions)
        yield Row(
            spec.name,
            paid.best({_shown(text): _always(text) for text in paid.constants}),
            paid.best({name: paid.constant_by(kind) for name, kind in KINDS.items()}),
            paid.best(COPIES),
            paid.best(PROGRAMS),
        )


def line_of(row: Row) -> str:
    ways = (row.constant, row.by_kind, row.copy, row.program)
    return f"| {row.dataset} | " + " | ".join(f"{way.reward:.3f} {way.name}" for way in ways) + " |"


class _Paid:
    """The two samples of one dataset, and what it pays for answers to them."""

    def __init__(self, manifest: Manifest, source: QuestionSource, number: int, num_questions: int) -> None:
        self._source, self._manifest = source, manifest
        self._first, self._second = (
            self._sample(number, author, num_questions) for author in (CHOSEN_ON, MEASURED_ON)
        )
        right = Counter(item["answer"] or item["metadata"].get("example_answer", "") for item in self._first)
        frequent = sorted(right, key=lambda answer: (-right[answer], answer))[:_FREQUENT_MAX]
        self.constants: list[str] = list(dict.fromkeys((*frequent, *KNOWN_CONSTANTS)))
        self._of_constants = [
            {text: self._reward(text, item) for text in self.constants} for item in self._first
        ]

    def best(self, ways: Mapping[str, Answer]) -> Cheap:
        """The way that earns most on the first sample, with what it earns on the second."""
        totals = dict.fromkeys(ways, 0.0)
        for item in self._first:
            answers = {name: answer(item["question"]) for name, answer in ways.items()}
            rewards = {text: self._reward(text, item) for text in set(answers.values())}
            for name, text in answers.items():
                totals[name] += rewards[text]
        name = max(ways, key=lambda name: totals[name])
        return Cheap(name, fmean(self._reward(ways[name](item["question"]), item) for item in self._second))

    def constant_by(self, kind: Callable[[str], str]) -> Answer:
        """A constant for each kind of question, and the best of all where the kind is rare or new."""
        places: dict[str, list[int]] = {}
        for place, item in enumerate(self._first):
            places.setdefault(kind(item["question"]), []).append(place)
        best_of = {
            name: self._best_constant(found) for name, found in places.items() if len(found) >= _KIND_MIN
        }
        anywhere = self._best_constant(range(len(self._first)))
        return lambda question: best_of.get(kind(question), anywhere)

    def _best_constant(self, places: Sequence[int]) -> str:
        return max(self.constants, key=lambda text: sum(self._of_constants[place][text] for place in places))

    def _reward(self, answer: str | None, item: Item) -> float:
        if answer is None:
            return 0.0
        answer_format = self._manifest.answer_format
        completion = f"<answer>{answer}</answer>" if answer_format == "tags" else answer
        return score(completion, item, self._source, answer_format).reward

    def _sample(self, number: int, author: bytes, num_questions: int) -> list[Item]:
        """The author's first questions; a seed whose question cannot be made is passed over, as nodes do."""
        items: list[Item] = []
        counter = 0
        while len(items) < num_questions:
            with contextlib.suppress(ValueError), contextlib.redirect_stdout(io.StringIO()):  # bf prints dots
                items.append(self._source.item(self._manifest.question_seed(author, number, counter)))
            counter += 1
        return items


def _shown(text: str) -> str:
    short = text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
    return f"`{short}`".replace("\n", "⏎").replace("|", "¦") if text else "nothing"


def _always(text: str) -> Answer:
    return lambda question: text
