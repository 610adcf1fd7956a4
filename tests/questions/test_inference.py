"""What earns under `reward = "exact"` of propositional_logic: a fact that takes more than one premise, and nothing else."""

from typing import Any

import pytest

from swarmd.errors import ConfigError
from swarmd.questions.golden import golden
from swarmd.questions.inference import facts_of, right_answer, score_inference
from swarmd.questions.regenerate import DatasetChoice, QuestionSource
from swarmd.questions.scorers import Reason, score

SHIPPED = {
    "min_vars": 5, "max_vars": 6, "min_statements": 3, "max_statements": 3, "min_complexity": 2, "max_complexity": 3,
}  # fmt: skip


def item_of(*premises: str, variables: str = "PQRS") -> dict[str, Any]:
    return {"answer": None, "metadata": {"premises": list(premises), "variables": list(variables)}}


def exact(**params: Any) -> QuestionSource:
    return QuestionSource(DatasetChoice("propositional_logic", params, "exact"))


@pytest.mark.parametrize(
    ("premises", "answer"),
    [
        (("P", "P → Q"), "Q"),
        (("P", "P → Q"), "¬¬(Q)"),
        (("P → Q", "Q → R"), "P → R"),
        (("P → Q", "Q → R"), "¬P ∨ R"),
        (("P → Q", "Q → R"), "¬R → ¬P"),
        (("P", "P → Q", "Q → R"), "Q ∧ R"),
        (("P ∨ Q", "P ∨ ¬Q"), "P"),
        (("P → Q", "Q → R", "S"), "P → R"),
    ],
)
def test_a_fact_of_several_premises_earns_everything(premises: tuple[str, ...], answer: str) -> None:
    assert score_inference(answer, item_of(*premises)) == 1.0


@pytest.mark.parametrize(
    ("premises", "answer", "why"),
    [
        (("P", "P → Q"), "P", "a premise"),
        (("P", "P → Q"), "P → Q", "a premise"),
        (("P", "P → Q"), "¬P ∨ Q", "a premise in other words"),
        (("P ∧ R", "P → Q"), "R", "a part of a premise"),
        (("P", "P → Q"), "P ∧ (P → Q)", "all premises"),
        (("P ∨ Q", "P ∨ ¬Q"), "(P ∨ Q) ∧ (P ∨ ¬Q)", "all premises, though together they are a fact"),
        (("P", "P → Q"), "P ∧ Q", "a fact and a premise"),
        (("P", "P → Q"), "Q ∨ R", "weaker than a fact"),
        (("P", "P → Q"), "R → Q", "weaker than a fact"),
        (("P", "P → Q", "Q → R"), "Q ∨ R", "weaker than either fact"),
        (("P", "P → Q"), "Q ∨ ¬Q", "always true"),
        (("P", "P → Q"), "Q ∧ ¬Q", "never true"),
        (("P", "P → Q"), "R", "does not follow"),
        (("P", "Q"), "P ∧ Q", "no premise is needed beside another"),
        (("P", "¬P", "Q"), "R", "premises that contradict each other"),
        (("P", "¬P"), "P ∧ ¬P", "premises that contradict each other"),
        (("P ∧ ¬P", "Q"), "Q", "a premise that contradicts itself"),
        (("P", "P → Q"), "Q, P ∨ R", "two formulas"),
        (("P", "P → Q"), "Q Q", "no formula"),
        (("P", "P → Q"), "", "nothing"),
        (("P", "P → Q"), "T", "an undeclared variable"),
        (("P", "P → Q"), "(" * 500 + "Q", "brackets left open"),
        (("P", "P → Q"), "Q\0", "a byte beside it"),
        (("P", "P → Q"), "Ｑ", "another letter that looks like it"),
    ],
)
def test_what_takes_no_inference_earns_nothing(premises: tuple[str, ...], answer: str, why: str) -> None:
    assert score_inference(answer, item_of(*premises)) == 0.0, why


def test_the_right_answer_is_the_shortest_fact_with_the_earliest_variables() -> None:
    assert right_answer(item_of("P → Q", "Q → R", "R → S")) == "¬P ∨ R"
    assert right_answer(item_of("P ∨ S", "¬S", "S ∨ ¬Q", "Q ∨ R")) == "P"
    assert right_answer(item_of("P", "¬P")) is None
    assert right_answer(item_of("P", "Q")) is None


def test_deep_negations_are_a_loop_not_a_recursion() -> None:
    assert score_inference("¬" * 1000 + "Q", item_of("P", "P → Q")) == 1.0


@pytest.mark.parametrize("seed", range(40))
def test_every_question_has_an_answer_and_pays_no_premise(seed: int) -> None:
    source = exact(**SHIPPED)
    item = source.item(seed * 50_000_017)
    premises = item["metadata"]["premises"]
    assert score(item["answer"], item, source, "plain").reward == 1.0
    assert {score(text, item, source, "plain").reward for text in (*premises, " ∧ ".join(premises))} == {0.0}


def test_a_seed_without_an_answer_asks_the_question_of_the_next_that_has_one() -> None:
    source, upstream = (
        exact(**SHIPPED),
        QuestionSource(DatasetChoice("propositional_logic", SHIPPED, "upstream")),
    )
    first = next(seed for seed in range(100) if not facts_of(upstream.item(seed)))
    after = next(seed for seed in range(first, 100) if facts_of(upstream.item(seed)))
    assert source.item(first) == {**upstream.item(after), "answer": right_answer(upstream.item(after))}
    assert source.item(first)["question"] != upstream.item(first)["question"]


def test_parameters_that_leave_no_question_are_refused() -> None:
    source = exact(min_vars=1, max_vars=1, min_statements=1, max_statements=1)
    with pytest.raises(ValueError, match="none of the seeds"):
        source.item(0)
    with pytest.raises(ConfigError, match="no question to ask"):
        golden(source)


def test_a_long_answer_is_not_looked_at() -> None:
    source = exact(**SHIPPED)
    item = source.item(1)
    assert score("¬" * 400 + item["answer"], item, source, "plain").reason is Reason.ANSWER_TOO_LONG
