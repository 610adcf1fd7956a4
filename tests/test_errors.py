"""Exit codes: one for each kind of failure, and a page that tells of all of them."""

import re
from pathlib import Path

import pytest

from swarmd.errors import BY_NAME, ChildDied, LocalError, SwarmdError, TooFewQuestions

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "exit-codes.md"
ROWS = re.findall(r"^\| (\d+) \| (?:`(\w+)`)? ?\|", PAGE.read_text(), re.M)
# What no script can tell apart from a bug: they end a node only when they were not foreseen.
WITHOUT_CODE = {SwarmdError, LocalError, ChildDied, TooFewQuestions}


def subclasses(kind: type[SwarmdError]) -> set[type[SwarmdError]]:
    return {kind}.union(*(subclasses(child) for child in kind.__subclasses__()))


def test_every_class_that_has_a_code_has_its_own() -> None:
    codes = [kind.exit_code for kind in subclasses(SwarmdError) - WITHOUT_CODE]
    assert len(codes) == len(set(codes))
    assert 1 not in codes


def test_the_page_tells_of_every_class_with_its_code() -> None:
    told = {name: int(code) for code, name in ROWS if name}
    assert told == {kind.__name__: kind.exit_code for kind in subclasses(SwarmdError) - WITHOUT_CODE}


def test_the_page_tells_no_code_twice() -> None:
    codes = [int(code) for code, _ in ROWS]
    assert codes == sorted(set(codes))
    assert {0, 1, 130} <= set(codes)


def test_every_class_survives_the_way_from_a_child_process() -> None:
    assert set(BY_NAME.values()) == subclasses(SwarmdError)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (SwarmdError("what"), "what"),
        (SwarmdError("what", "why"), "what\n  why"),
        (SwarmdError("what", "", "fix"), "what\n  fix"),
        (SwarmdError("what", "why", "fix"), "what\n  why\n  fix"),
    ],
)
def test_a_message_is_what_why_and_what_to_do(error: SwarmdError, text: str) -> None:
    assert str(error) == text
