"""What a node made of a damage, and whether that is right."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from tests.chaos.corruption.rows import Row
from tests.chaos.target import ROUND

# What differs from one run to the next: numbers, peer ids, paths.
_VARYING = re.compile(r"12D3Koo\w+|/\S+|\d[\d.:,]*")


@dataclass(frozen=True)
class Outcome:
    """How a start on a directory ended. `code` is 0 where the node made rounds.

    Attributes:
        counter: the next question number before the damage and at the end; None where it cannot be read.
        is_itself: whether the node that ran had the peer id of before; true where none ran.
        keeps_ban: whether the operator's ban is in force; true where no node ran.
        said: lines that an undamaged node does not print.
        lost: what is not there any more, in words.
    """

    code: int
    output: str
    counter: tuple[int | None, int | None]
    is_itself: bool
    keeps_ban: bool
    said: tuple[str, ...]
    lost: tuple[str, ...]


def said(output: str, control: Collection[str]) -> tuple[str, ...]:
    """The lines that are not among the control's patterns; rounds are left out."""
    lines = (line.strip() for line in output.splitlines())
    return tuple(line for line in lines if line and not ROUND.match(line) and pattern(line) not in control)


def pattern(line: str) -> str:
    """A line without what varies."""
    return _VARYING.sub("#", line.strip())


def wrong(row: Row, outcome: Outcome) -> list[str]:
    """What is not as it should be, in words."""
    before, after = outcome.counter
    found = []
    if outcome.code not in row.codes:
        found.append(f"exit {outcome.code}, wanted {' or '.join(map(str, row.codes))}")
    if "Traceback" in outcome.output:
        found.append("a traceback")
    if outcome.code == 0 and (before is None or after is None or after < before):
        found.append(f"the question counter went from {before} to {after}")
    if not outcome.is_itself:
        found.append("another peer id")
    if not outcome.keeps_ban:
        found.append("the operator's ban is gone")
    if not outcome.said and not row.silent:
        found.append("nothing said")
    return found
