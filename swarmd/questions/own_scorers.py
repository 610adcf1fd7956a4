"""Our own scorers for datasets whose upstream scorer must not see foreign text: no `eval`, no recursion, bounded work.

Each takes the answer (already under the length cap) and the regenerated item, and returns upstream's reward on every answer a
well-meaning model could give. `Refused` marks text that only upstream's `eval` could have understood.
"""

import json
import math
import re

from swarmd.questions.family import Item
from swarmd.questions.logic import score_conclusion

_LIST_TEXT = re.compile(r"[\[\]\d,\s-]*")


class Refused(Exception):
    """The answer has characters or a shape that no rule here reads; it scores 0."""


def score_binary_matrix(answer: str, item: Item) -> float:
    """1 for the matrix as text, 0.1 for it as a list of lists."""
    if answer == item["answer"]:
        return 1.0
    given = _parse_list(answer)
    rows = [row for row in given if isinstance(row, list) and all(type(cell) is int for cell in row)]
    if len(rows) < len(given):
        raise Refused
    return 0.1 if "\n".join(" ".join(map(str, row)) for row in rows) == item["answer"] else 0.0


def score_spiral_matrix(answer: str, item: Item) -> float:
    """1 for the numbers separated by blanks, 0.1 for them as a list."""
    oracle = (item["answer"] or "").strip()
    answer = answer.strip()
    if answer == oracle:
        return 1.0
    return 0.1 if answer and " ".join(map(str, _parse_list(answer))) == oracle else 0.0


def score_number_sorting(answer: str, item: Item) -> float:
    """1 for a list in the right order whose values are within 1 of the oracle's, as upstream has it.

    A NaN is no number here. Upstream pays full marks for `[NaN, NaN, NaN]`, since no comparison finds fault with it.
    """
    values = _loads(answer.replace("'", '"'))
    if not isinstance(values, list):
        return 0.0
    expected = [float(number) for number in item["metadata"]["sorted_numbers"]]
    try:
        given = [float(value) for value in values]
    except (ValueError, TypeError, OverflowError):
        return 0.0
    descending = item["metadata"]["direction"] != "ascending"
    if len(given) != len(expected) or any(map(math.isnan, given)):
        return 0.0
    if given != sorted(given, reverse=descending):
        return 0.0
    return float(not any(abs(a - b) > 1 for a, b in zip(given, expected, strict=True)))


def score_propositional_logic(answer: str, item: Item) -> float:
    """1 for a conclusion that follows from the premises, 0.25 for a trivial one, 0.05 for any other formula."""
    metadata = item["metadata"]
    return score_conclusion(answer, metadata["premises"], metadata["variables"])


def _parse_list(text: str) -> list[object]:
    if not _LIST_TEXT.fullmatch(text):
        raise Refused
    values = _loads(text)
    if not isinstance(values, list):
        raise Refused
    return values


def _loads(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Refused from None
