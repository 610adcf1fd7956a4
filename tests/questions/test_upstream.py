"""Our rewards equal upstream's, dataset by dataset, on right answers, near misses and nonsense."""

import decimal
import math
import random
from collections.abc import Iterator
from typing import Any

import pytest

from swarmd.questions.datasets import OFFERED
from swarmd.questions.extract import answer_chars_max
from swarmd.questions.logic import NotAFormula, evaluate
from swarmd.questions.regenerate import DatasetChoice, QuestionSource
from swarmd.questions.scorers import Reason, score
from tests.questions.answers import SPACES

_NUM_SEEDS = 25
_PLAIN = (
    "",
    " ",
    "0",
    "1",
    "-1",
    "7.0",
    "+01,000.00",
    "1e3",
    "inf",
    "x",
    "1/2",
    "-1/2",
    r"$\frac{1}{2}$",
    r"\dfrac{3}{4}",
    "[[0, 1], [1, 0]]",
    "[1, 2, 3]",
    "['1.0', '2.0']",
    "[]",
    "Monday",
    "friday",
    "Yes",
    "no",
    "a, b",
    "2 × 3",
)


def answers_to(item: dict[str, Any], rng: random.Random) -> Iterator[str]:
    """Right, nearly right, and wrong answers to one item."""
    yield from _PLAIN
    metadata = item["metadata"]
    oracle = item["answer"] or metadata["example_answer"]
    yield from (
        oracle,
        f" {oracle}",
        f"{oracle}\n",
        f"The answer is {oracle}",
        oracle * 2,
        oracle[:-1],
        oracle[1:],
    )
    yield from (oracle.upper(), oracle.lower(), oracle.title(), f"{oracle}.0", f"{oracle}0", f"-{oracle}")
    yield from (oracle.replace(" ", ""), oracle.replace(",", ", "), oracle[::-1], f"${oracle}$")
    # but for the form feed, over which Python passes in a list and JSON does not: see `python_only` in test_property.py
    for space in SPACES.replace("\x0c", ""):
        place = rng.randrange(len(oracle) + 1)
        yield from (f"({space}{oracle}{space})", oracle.replace(" ", space), f"{space}{oracle}")
        yield oracle[:place] + space + oracle[place:]
    cut = rng.randrange(len(oracle) + 1)
    yield oracle[:cut] + rng.choice("0123456789 -,x") + oracle[cut:]
    if solution := metadata.get("solution"):
        yield str(solution)
    if numbers := metadata.get("sorted_numbers"):
        yield from (str(numbers), str(numbers[::-1]), str(numbers[:-1]), ", ".join(numbers))
        yield from (str([float(n) + delta for n in numbers]) for delta in (0.5, 1.5))
        yield '["' + '", "'.join(numbers) + '"]'
    if premises := metadata.get("premises"):
        yield from premises
        yield " ∧ ".join(f"({premise})" for premise in premises)
        yield from (formula(metadata["variables"], rng, depth) for depth in (1, 2, 2, 3, 3, 4))


def formula(variables: list[str], rng: random.Random, depth: int) -> str:
    """A random formula, with and without the brackets it needs."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(variables)
    if rng.random() < 0.25:
        return "¬" + formula(variables, rng, depth - 1)
    left, right = (formula(variables, rng, depth - 1) for _ in range(2))
    text = f"{left} {rng.choice('∧∨→↔')} {right}"
    return f"({text})" if rng.random() < 0.5 else text


def is_formula(text: str, variables: list[str]) -> bool:
    """Whether the text is one over the declared variables."""
    try:
        evaluate(text, dict.fromkeys(variables, 0), 1)
    except NotAFormula:
        return False
    return True


def upstream(source: QuestionSource, answer: str, item: dict[str, Any]) -> float:
    """What the package's own scorer says, 0 where it raises or leaves [0, 1]."""
    with decimal.localcontext(decimal.Context()):
        try:
            value = float(source.dataset.score_answer(answer, item))
        except Exception:
            return 0.0
    return min(value, 1.0) if math.isfinite(value) and 0 <= value <= 1 + 1e-9 else 0.0


@pytest.mark.parametrize("name", OFFERED)
def test_rewards_equal_upstream(name: str) -> None:
    source = QuestionSource(DatasetChoice(name, {}, "exact" if OFFERED[name].exact_only else "upstream"))
    rng = random.Random(name)
    for seed in range(_NUM_SEEDS):
        item = dict(source.item(rng.randrange(2**31)))
        for answer in answers_to(item, rng):
            if len(answer) > (OFFERED[name].chars_max or answer_chars_max(item["answer"])):
                continue
            if name == "propositional_logic" and not is_formula(answer, item["metadata"]["variables"]):
                continue
            expected = upstream(source, answer.strip(), item)
            if source.reward == "exact":
                expected = float(expected == 1.0)
            assert score(answer, item, source, "plain").reward == expected, (seed, answer)


def test_exact_pays_full_marks_only() -> None:
    source = QuestionSource(DatasetChoice("spell_backward", {}, "exact"))
    item = source.item(1)
    rewards = [
        score(text, item, source, "plain").reward for text in (item["answer"], item["answer"][:-1], "")
    ]
    assert rewards == [1.0, 0.0, 0.0]


def test_a_wrong_answer_never_earns_more_than_the_right_one() -> None:
    """With an oracle below zero upstream pays exp(+5 x error); no generated question has one today."""
    source = QuestionSource(
        DatasetChoice("calendar_arithmetic", {"tasks": ["recurring_event_day"]}, "upstream")
    )
    item = {**source.item(1), "answer": "-1"}
    assert source.dataset.score_answer("20", item) > 1e9
    assert score("-1", item, source, "plain").reward == 1.0
    assert score("20", item, source, "plain").reason is Reason.OUT_OF_RANGE


@pytest.mark.parametrize("text", ["0", "P Q", "x", "(P", "P)(", "p ∨ ¬p", "The answer is P", ""])
def test_what_upstream_takes_for_a_formula(text: str) -> None:
    """Where ours differs on purpose: upstream pays 0.05 or 0.25 for most text, as a formula over variables nobody declared."""
    source = QuestionSource(DatasetChoice("propositional_logic", {}, "upstream"))
    assert score(text, source.item(1), source, "plain").reward == 0.0


def test_nan_sorts_nothing() -> None:
    source = QuestionSource(DatasetChoice("number_sorting", {}, "upstream"))
    item = source.item(3)
    answer = f"[{', '.join(['NaN'] * item['metadata']['numbers'])}]"
    assert source.dataset.score_answer(answer, item) == 1.0
    assert score(answer, item, source, "plain").reward == 0.0
