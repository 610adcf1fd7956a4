"""Propositional formulas as truth tables: an iterative parser whose work is linear in the text.

Upstream builds its table over the variables an *answer* mentions and parses recursively: 35 bytes with 18 undeclared names keep it
busy for seconds. Here a formula over n declared variables is one integer of 2^n bits.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the library is imported where its datasets are made, and nowhere else
    from reasoning_gym.logic.propositional_logic import Expression, PropositionalLogicDataset

# 2^10 bits a table; upstream names variables from "P" on, so eleven fit its alphabet.
VARIABLES_MAX = 10
_STRENGTH = {"↔": 1, "→": 2, "∨": 3, "∧": 4, "¬": 5}


class NotAFormula(ValueError):
    """The text is no formula over the declared variables."""


def score_conclusion(text: str, premises: Sequence[str], variables: Sequence[str]) -> float:
    """The reward of a conclusion: 1 valid, 0.25 valid but a tautology or a bare variable, 0.05 a formula, 0 otherwise.

    It follows reasoning_gym's `PropositionalLogicDataset.score_answer`, including that a bare variable counts as trivial.
    """
    if len(variables) > VARIABLES_MAX:
        return 0.0
    every = every_row(len(variables))
    tables = truth_tables(variables)
    try:
        conclusion = evaluate(text, tables, every)
    except NotAFormula:
        return 0.0
    given = every
    for premise in premises:
        given &= evaluate(premise, tables, every)
    if given & ~conclusion:
        return 0.05
    bare = _compact(text).strip("()") in tables
    return 0.25 if bare or conclusion == every else 1.0


def follows(
    dataset: "PropositionalLogicDataset", premises: "Sequence[Expression]", conclusion: "Expression"
) -> bool:
    """Upstream's `_is_valid_conclusion` for its own expressions, from truth tables instead of a walk for each assignment.

    Upstream tries up to 100 conclusions a question: with six variables that took 20 ms at p99, and 40 ms at most of 1,000.
    """
    variables = sorted(dataset._collect_variables([*premises, conclusion]))
    tables, every = truth_tables(variables), every_row(len(variables))
    given = every
    for premise in premises:
        given &= _table_of(premise, tables, every)
    return not given & ~_table_of(conclusion, tables, every)


def _table_of(expression: "Expression", tables: Mapping[str, int], every: int) -> int:
    """The truth table of upstream's expression; its generator nests at most four deep."""
    if expression.operator is None:
        return tables[expression.left]
    left = _table_of(expression.left, tables, every)
    if expression.operator == "¬":
        return every & ~left
    return _joined(expression.operator.value, left, _table_of(expression.right, tables, every), every)


def every_row(num_variables: int) -> int:
    """The truth table of what is always true: a one for each assignment."""
    return (1 << (1 << num_variables)) - 1


def truth_tables(variables: Sequence[str]) -> Mapping[str, int]:
    """For each variable the integer whose bit i is its value in assignment i."""
    return _tables(tuple(variables))


@lru_cache(maxsize=64)  # the generator asks once for each conclusion that it tries
def _tables(variables: tuple[str, ...]) -> Mapping[str, int]:
    num_rows = 1 << len(variables)
    return MappingProxyType(
        {
            name: sum(1 << row for row in range(num_rows) if row >> position & 1)
            for position, name in enumerate(variables)
        }
    )


def evaluate(text: str, tables: Mapping[str, int], every: int) -> int:
    """The truth table of a formula; operators of equal strength group from the left.

    Raises:
        NotAFormula: unknown characters or variables, or an operator or operand too many.
    """
    operands: list[int] = []
    operators: list[str] = []
    operand_next = True
    for token in _compact(text):
        if operand_next:
            if token in "¬(":
                operators.append(token)
            elif token in tables:
                operands.append(tables[token])
                operand_next = False
            else:
                raise NotAFormula
        elif token == ")":
            _reduce(operands, operators, 0, every)
            if not operators:
                raise NotAFormula
            operators.pop()
        elif token in _STRENGTH and token != "¬":
            _reduce(operands, operators, _STRENGTH[token], every)
            operators.append(token)
            operand_next = True
        else:
            raise NotAFormula
    if operand_next:
        raise NotAFormula
    _reduce(operands, operators, 0, every)
    if operators:
        raise NotAFormula
    return operands[0]


def _compact(text: str) -> str:
    """The text without what Python calls white space, as upstream's parser and its bare variables have it."""
    return "".join(text.split())


def _reduce(operands: list[int], operators: list[str], strength: int, every: int) -> None:
    """Apply what stands on the stack down to the last open bracket, as far as it binds at least this strongly."""
    while operators and operators[-1] != "(" and _STRENGTH[operators[-1]] >= strength:
        operator = operators.pop()
        right = operands.pop()
        if operator == "¬":
            operands.append(every & ~right)
            continue
        left = operands.pop()
        operands.append(_joined(operator, left, right, every))


def _joined(operator: str, left: int, right: int, every: int) -> int:
    if operator == "∧":
        return left & right
    if operator == "∨":
        return left | right
    return (every & ~left) | right if operator == "→" else every & ~(left ^ right)
