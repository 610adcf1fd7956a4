"""DATASETS.md, `propositional_logic` with `reward = "exact"`: facts and what an answer earns, over sets of assignments."""

from collections.abc import Callable
from itertools import product
from typing import Any

from tests.protocol.second.formats import Bad

SPACES = {*range(0x09, 0x0E), *range(0x1C, 0x21), 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B)} | {
    0x2028, 0x2029, 0x202F, 0x205F, 0x3000,
}  # fmt: skip
JOINS: dict[str, Callable[[bool, bool], bool]] = {
    "∧": lambda a, b: a and b,
    "∨": lambda a, b: a or b,
    "→": lambda a, b: b or not a,
    "↔": lambda a, b: a == b,
}

Row = dict[str, bool]
Literal = tuple[str, bool]
Clause = tuple[Literal, ...]


def facts(premises: list[str], variables: list[str]) -> list[Clause]:
    """Rules 1 and 2, in the order of rule 4."""
    rows = rows_of(variables)
    allowed = [[row for row in rows if true(premise, row)] for premise in premises]
    together = [row for row in rows if all(row in one for one in allowed)]
    if not together:
        return []
    found = []
    for clause in clauses(variables):
        weaker = [tuple(other for other in clause if other != one) for one in clause]
        strongest = says(together, clause) and not any(says(together, part) for part in weaker)
        if strongest and not any(says(one, clause) for one in allowed):
            found.append(clause)
    return found


def right(premises: list[str], variables: list[str]) -> str | None:
    """Rule 4."""
    found = facts(premises, variables)
    return written(found[0]) if found else None


def reward(answer: str, premises: list[str], variables: list[str]) -> float:
    """Rule 5: each assignment that the answer excludes is excluded by a fact that follows from the answer."""
    if any(answer.count(name) > 1 for name in variables):
        return 0.0
    rows = rows_of(variables)
    try:
        stated = [row for row in rows if true(answer, row)]
    except Bad:
        return 0.0
    said = [fact for fact in facts(premises, variables) if says(stated, fact)]
    excluded = [row for row in rows if row not in stated]
    return float(bool(said) and all(any(not says([row], fact) for fact in said) for row in excluded))


def rows_of(variables: list[str]) -> list[Row]:
    return [
        dict(zip(variables, values, strict=True)) for values in product((False, True), repeat=len(variables))
    ]


def says(rows: list[Row], clause: Clause) -> bool:
    """Whether the clause holds in each of the rows; one without literals holds nowhere."""
    return all(any(row[name] is plain for name, plain in clause) for row in rows)


def clauses(variables: list[str]) -> list[Clause]:
    """All of them, the shortest first; then at each variable the plain literal, the negated one, none."""
    chosen = product((True, False, None), repeat=len(variables))
    every = [
        tuple((name, sign) for name, sign in zip(variables, signs, strict=True) if sign is not None)
        for signs in chosen
    ]
    return sorted((clause for clause in every if clause), key=len)


def written(clause: Clause) -> str:
    return " ∨ ".join(name if plain else "¬" + name for name, plain in clause)


def true(text: str, row: Row) -> bool:
    """The value of a formula: bracket after bracket from the inside, each without brackets of its own."""
    parts: list[Any] = [[]]
    for char in text:
        if ord(char) in SPACES:
            continue
        if char == "(":
            parts.append([])
        elif char == ")":
            inner = parts.pop()
            if not parts:
                raise Bad("a bracket closes that none opened")
            parts[-1].append(_flat(inner))
        elif char in row:
            parts[-1].append(row[char])
        elif char in JOINS or char == "¬":
            parts[-1].append(char)
        else:
            raise Bad(f"{char!r} is no part of a formula")
    if len(parts) != 1:
        raise Bad("a bracket stays open")
    return _flat(parts[0])


def _flat(tokens: list[Any]) -> bool:
    """Values and operators without brackets: all `¬`, then all `∧` from the left, and so on."""
    plain: list[Any] = []
    for token in reversed(tokens):
        if token == "¬":
            if not plain or not isinstance(plain[0], bool):
                raise Bad("nothing to negate")
            plain[0] = not plain[0]
        else:
            plain.insert(0, token)
    values, operators = plain[0::2], plain[1::2]
    if len(plain) % 2 == 0 or not all(isinstance(value, bool) for value in values):
        raise Bad("an operand is missing")
    if not all(operator in JOINS for operator in operators):
        raise Bad("an operator is missing")
    for operator, join in JOINS.items():
        while operator in operators:
            place = operators.index(operator)
            values[place : place + 2] = [join(*values[place : place + 2])]
            del operators[place]
    return bool(values[0])
