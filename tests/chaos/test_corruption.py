"""What counts as right after a damage."""

from dataclasses import replace

import pytest

from tests.chaos.corruption.outcome import Outcome, pattern, said, wrong
from tests.chaos.corruption.rows import REFUSED, ROWS, Row

ROW = Row("a file: bit", lambda root: None, "0, silent")
GOOD = Outcome(0, "", (54, 60), True, True, ("! a file is damaged",), ())


def test_what_is_found_and_said_is_right() -> None:
    assert wrong(ROW, GOOD) == []
    assert wrong(ROW._replace(codes=REFUSED), replace(GOOD, code=16, counter=(54, None))) == []
    assert wrong(ROW._replace(silent="a cache"), replace(GOOD, said=())) == []


@pytest.mark.parametrize(
    "change",
    [
        {"code": 1},
        {"output": "Traceback (most recent call last)"},
        {"counter": (54, 20)},
        {"counter": (54, None)},
        {"is_itself": False},
        {"keeps_ban": False},
        {"said": ()},
    ],
)
def test_anything_else_is_wrong(change: dict[str, object]) -> None:
    assert len(wrong(ROW, replace(GOOD, **change))) == 1


def test_what_an_undamaged_node_says_does_not_count() -> None:
    control = {pattern("✓ model 12 MB in /tmp/a"), pattern("Running.")}
    output = "✓ model 15 MB in /tmp/b\n12:00:01 round 3     reward 0.1 own\n! counter: 54 -> 60\nRunning.\n"
    assert said(output, control) == ("! counter: 54 -> 60",)


def test_every_row_has_a_name_of_its_own() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
