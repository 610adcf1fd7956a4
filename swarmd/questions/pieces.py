"""Answers that a question's own text gives away: its pieces by their place, and tiny programs over its numbers.

Nothing here understands a question. A policy finds such answers long before it solves anything.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache

Answer = Callable[[str], str | None]
"""From a question to an answer, or to none where the question has no such piece."""

# Pieces are counted from the beginning and from the end, up to here.
_PLACES = 12
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_FRAMED = re.compile(r"\"([^\"\n]+)\"|'([^'\n]+)'|`([^`\n]+)`|(\$[^$\n]+\$)|\(([^()\n]+)\)|\[([^\[\]\n]+)\]")
_LABEL = re.compile(r"^[.\s]*(?:\d+\.|\w+:)\s*")
_MARKS = ".,:;?!()[]\"'`"
# The largest number, the second largest and so on, and the smallest ones likewise.
_RANKS = {
    "largest number": -1,
    "second largest number": -2,
    "smallest number": 0,
    "second smallest number": 1,
}


def _numbers(question: str) -> list[str]:
    return _NUMBER.findall(question)


def _words(question: str) -> list[str]:
    return [word.strip(_MARKS) for word in question.split()]


def _lines(question: str) -> list[str]:
    return [_LABEL.sub("", line).strip() for line in question.splitlines() if line.strip()]


def _framed(question: str) -> list[str]:
    """Text in quotation marks, dollar signs or brackets."""
    return ["".join(groups) for groups in _FRAMED.findall(question)]


def _letters(question: str) -> list[str]:
    """Capital letters that stand alone, such as variables."""
    return re.findall(r"\b[A-Z]\b", question)


_PIECES: Mapping[str, Callable[[str], list[str]]] = {
    "number": lru_cache(4096)(_numbers),
    "word": lru_cache(4096)(_words),
    "line": lru_cache(4096)(_lines),
    "framed piece": lru_cache(4096)(_framed),
    "letter": lru_cache(4096)(_letters),
}


def _piece(pieces: Callable[[str], list[str]], place: int) -> Answer:
    def answer(question: str) -> str | None:
        found = pieces(question)
        return found[place] if -len(found) <= place < len(found) else None

    return answer


def _after_colon(question: str) -> str | None:
    """The rest of the question behind its last colon."""
    return question.rpartition(":")[2].strip() or None


def _most_frequent_number(question: str) -> str | None:
    """The number that occurs most often, the earliest of equals."""
    counted = Counter(_numbers(question)).most_common(1)
    return counted[0][0] if counted else None


def _ranked(place: int) -> Answer:
    """The number at this place in ascending order."""
    return _piece(lambda question: sorted(_numbers(question), key=float), place)


COPIES: Mapping[str, Answer] = {
    "whole question": lambda question: question,
    "behind the last colon": _after_colon,
    **{
        f"{name} {place + 1}": _piece(pieces, place)
        for name, pieces in _PIECES.items()
        for place in range(_PLACES)
    },
    **{
        f"{name} {place} from the end": _piece(pieces, -place)
        for name, pieces in _PIECES.items()
        for place in range(1, _PLACES + 1)
    },
}
PROGRAMS: Mapping[str, Answer] = {
    "first number": _piece(_numbers, 0),
    "last number": _piece(_numbers, -1),
    "most frequent number": _most_frequent_number,
    **{name: _ranked(place) for name, place in _RANKS.items()},
}
KINDS: Mapping[str, Callable[[str], str]] = {
    "first three words": lambda question: " ".join(question.split()[:3]),
    "last three words": lambda question: " ".join(question.split()[-3:]),
}
