"""The facts of a propositional question: its premises state them together, and no single premise does.

Upstream pays every formula that follows: `P ∨ Q` follows from most premises, and each premise follows from itself. Here an answer
has to say one fact or several, and nothing else. `proto/DATASETS.md` defines it for other implementations.
"""

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import product

from swarmd.questions.family import Item
from swarmd.questions.logic import NotAFormula, evaluate, every_row, truth_tables

# For each variable whether a clause has it as it is (True), negated (False), or not at all (None).
Clause = tuple[bool | None, ...]


def score_inference(answer: str, item: Item) -> float:
    """1 for a formula that has each variable at most once and is equivalent to one fact or to several joined by ∧; else 0."""
    variables = item["metadata"]["variables"]
    if any(answer.count(name) > 1 for name in variables):
        return 0.0
    every = every_row(len(variables))
    try:
        stated = evaluate(answer, truth_tables(variables), every)
    except NotAFormula:
        return 0.0
    rows_of, said = _clauses(len(variables)), every
    for fact in facts_of(item):
        if not stated & ~rows_of[fact]:
            said &= rows_of[fact]
    return float(said == stated != every)


def right_answer(item: Item) -> str | None:
    """The shortest fact of the question, in writing; None where there is none, or the premises contradict each other."""
    found = facts_of(item)
    return written(min(found, key=_order), item["metadata"]["variables"]) if found else None


def facts_of(item: Item) -> frozenset[Clause]:
    """The strongest clauses of all premises together that follow from no single premise; none where they contradict each other."""
    return _facts(tuple(item["metadata"]["premises"]), tuple(item["metadata"]["variables"]))


@lru_cache(maxsize=16)  # one question has many completions
def _facts(premises: tuple[str, ...], variables: tuple[str, ...]) -> frozenset[Clause]:
    tables, every = truth_tables(variables), every_row(len(variables))
    single = [evaluate(premise, tables, every) for premise in premises]
    together = every
    for table in single:
        together &= table
    if not together:
        return frozenset()
    all_clauses = _clauses(len(variables))
    return frozenset(
        clause
        for clause in strongest_clauses(together, len(variables))
        if all(table & ~all_clauses[clause] for table in single)
    )


def strongest_clauses(table: int, num_variables: int) -> set[Clause]:
    """The clauses that follow from a truth table and no longer do so without one of their literals (its prime implicates)."""
    following = {clause for clause, rows in _clauses(num_variables).items() if not table & ~rows}
    return {clause for clause in following if not any(part in following for part in _parts(clause))}


def written(clause: Clause, variables: Sequence[str]) -> str:
    """A clause as a formula: `P ∨ ¬Q`."""
    literals = zip(clause, variables, strict=True)
    return " ∨ ".join(name if value else f"¬{name}" for value, name in literals if value is not None)


@cache
def _clauses(num_variables: int) -> dict[Clause, int]:
    """Every clause over so many variables with its truth table: 3^n of them, 729 for six."""
    every = every_row(num_variables)
    tables = list(truth_tables([str(number) for number in range(num_variables)]).values())
    clauses: dict[Clause, int] = {}
    for clause in product((None, True, False), repeat=num_variables):
        rows = 0
        for value, table in zip(clause, tables, strict=True):
            rows |= 0 if value is None else table if value else every & ~table
        clauses[clause] = rows
    return clauses


def _parts(clause: Clause) -> Iterator[Clause]:
    """The clause without one of its literals."""
    for place, value in enumerate(clause):
        if value is not None:
            yield (*clause[:place], None, *clause[place + 1 :])


def _order(clause: Clause) -> tuple[int, tuple[int, ...]]:
    """Short ones first; then by the variables in turn: a plain literal, a negated one, none."""
    return sum(value is not None for value in clause), tuple(
        2 if value is None else int(not value) for value in clause
    )
