"""Premises, their facts, and answers with what each earns: the rule of propositional_logic with `reward = "exact"`."""

from typing import Any

from swarmd.questions.inference import facts_of, right_answer, score_inference, written

# Premises, and answers beside the facts themselves.
_CASES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "a chain": (
        "PQR",
        ("P", "(P → Q)", "(Q → R)"),
        (
            *("¬¬R", "Q ∧ R", "(Q)∧(R)", "Q\u3000∧\nR", "\x1cQ\x85", "¬(¬Q∨¬R)", "¬" * 101 + "¬Q"),
            *("P", "P → Q", "P ∧ Q", "P ∧ (P → Q)", "Q ∨ R", "Q ∧ Q", "¬Q", "Q ↔ R"),
        ),
    ),
    "how operators bind, and equal ones from the left": (
        "PQRS",
        ("(P ↔ Q)", "(Q ↔ (R ∧ S))"),
        (
            *("P ↔ R ∧ S", "P ↔ (R ∧ S)", "(P ↔ R) ∧ S", "P → R ∧ S", "(P → R) ∧ S", "¬P ∨ R", "R ∧ S → P"),
            *("¬R ∨ ¬S ∨ P", "¬(R ∧ S) ∨ P", "¬R ∧ S ∨ P", "R → S → P", "R → (S → P)", "(R → S) → P"),
        ),
    ),
    "premises that contradict each other": ("PQ", ("P", "¬P"), ("Q", "P", "P ∧ ¬P", "P ∨ Q")),
    "nothing takes two premises": ("PQ", ("P", "Q"), ("P", "P ∧ Q", "P ∨ Q", "P ↔ Q")),
    "both facts of an equivalence": (
        "PQR",
        ("(P → Q)", "(Q → R)", "(R → P)"),
        ("P ↔ Q", "P → Q", "Q → P", "¬P ↔ ¬R", "P ↔ ¬R", "P ↔ Q ↔ R"),
    ),
    "what is no formula": (
        "PQ",
        ("P", "(P → Q)"),
        (
            *("", "()", "Q Q", "Q,", "(Q", "Q)", ")Q(", "Q¬", "∨Q", "Q∨", "¬", "P → T", "q", "Ｑ", "Q\x00"),
            *("Q\u200b", "Q∧()", "(Q)(Q)", "¬(Q)¬", "QP", "~~Q", "TRUE"),
        ),
    ),
    "the shortest fact, and of those the first": ("PQRS", ("(P ∨ S)", "¬S", "(S ∨ ¬Q)", "(Q ∨ R)"), ("P",)),
}


def inference_cases() -> list[dict[str, Any]]:
    """One object for each set of premises; `facts` in alphabetical order, `answers` with the reward of each."""
    cases = []
    for name, (variables, premises, answers) in _CASES.items():
        item = {"metadata": {"premises": list(premises), "variables": list(variables)}}
        facts = sorted(written(fact, variables) for fact in facts_of(item))
        cases.append(
            {
                "name": name,
                **item["metadata"],
                "facts": facts,
                "right": right_answer(item),
                "answers": {answer: score_inference(answer, item) for answer in (*facts, *answers)},
            }
        )
    return cases
