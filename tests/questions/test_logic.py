"""Truth tables of formulas: precedence, grouping, and text that is no formula."""

import itertools
import random

import pytest

from swarmd.questions.logic import NotAFormula, evaluate, follows, score_conclusion, truth_tables
from swarmd.questions.regenerate import DatasetChoice, QuestionSource
from tests.questions.answers import SPACES

_VARIABLES = ["P", "Q", "R"]
_TABLES = truth_tables(_VARIABLES)
_EVERY = 2**8 - 1


@pytest.mark.parametrize(
    ("formula", "python"),
    [
        ("P", "P"),
        ("¬P", "not P"),
        ("¬¬P", "P"),
        ("¬P ∧ Q", "(not P) and Q"),
        ("P ∨ Q ∧ R", "P or (Q and R)"),
        ("P ∧ Q ∨ R", "(P and Q) or R"),
        ("P → Q → R", "not (not P or Q) or R"),
        ("P ↔ Q ∨ R", "P == (Q or R)"),
        ("P → Q ↔ R", "(not P or Q) == R"),
        ("¬(P ∨ (Q → R))", "not (P or (not Q or R))"),
        ("((P)) ∧ (¬(R))", "P and not R"),
    ],
)
def test_formulas(formula: str, python: str) -> None:
    assignments = (
        dict(zip(reversed(_VARIABLES), v, strict=True)) for v in itertools.product((False, True), repeat=3)
    )
    expected = sum(1 << row for row, values in enumerate(assignments) if eval(python, {}, values))
    assert evaluate(formula, _TABLES, _EVERY) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "()",
        "P Q",
        "P ∧",
        "∧ P",
        "P ¬ Q",
        "(P",
        "P)",
        ")P(",
        "P(Q)",
        "(P)Q",
        "S",
        "p",
        "PQ",
        "P & Q",
        "¬",
        "P\0",
        "(" * 900,
        "¬" * 900,
    ],
)
def test_what_is_no_formula(text: str) -> None:
    with pytest.raises(NotAFormula):
        evaluate(text, _TABLES, _EVERY)


@pytest.mark.parametrize(
    ("conclusion", "reward"),
    [("P ∧ Q", 1.0), ("Q ∨ R", 1.0), ("P", 0.25), ("(Q)", 0.25), ("R ∨ ¬R", 0.25), ("R", 0.05), ("S", 0.0)],
)
def test_conclusions(conclusion: str, reward: float) -> None:
    assert score_conclusion(conclusion, ["P", "P → Q"], _VARIABLES) == reward


@pytest.mark.parametrize("space", SPACES)
def test_a_variable_between_brackets_is_bare_whatever_the_white_space(space: str) -> None:
    assert score_conclusion(f"({space}P)", ["P"], ["P"]) == 0.25
    assert score_conclusion(f"(({space}P{space}){space})", ["P"], ["P"]) == 0.25


def test_deep_nesting_is_a_loop_not_a_recursion() -> None:
    assert score_conclusion("¬" * 1000 + "P", ["P"], ["P"]) == 1.0


def test_what_follows_is_what_every_assignment_says() -> None:
    dataset, rng, found = (
        QuestionSource(DatasetChoice("propositional_logic", {}, "upstream")).dataset,
        random.Random(1),
        set(),
    )
    for _ in range(300):
        *premises, conclusion = dataset._generate_premises(rng, ["P", "Q", "R"], 4)
        conclusion = conclusion.simplify()
        assignments = dataset._generate_assignments({"P", "Q", "R"})
        expected = all(
            conclusion.evaluate(values) or not all(premise.evaluate(values) for premise in premises)
            for values in assignments
        )
        assert follows(dataset, premises, conclusion) == expected
        found.add(expected)
    assert found == {True, False}
