"""The file of answers: what was asked comes back as it was, and every fault is named with its line."""

import io
import json

import pytest

from swarmd.contribute import lines as room
from swarmd.contribute.lines import Line, blank, read_lines

GOOD = '{"dataset": "gcd", "counter": 7, "completions": ["4", "5"]}'


def faults(text: str | bytes) -> list[tuple[int, str]]:
    """What is wrong with a file; a text is encoded first."""
    data = text.encode() if isinstance(text, str) else text
    return [(line, what) for line, what in read_lines(io.BytesIO(data))[1]]


def read(text: str) -> list[Line]:
    lines, problems = read_lines(io.BytesIO(text.encode()))
    assert problems == []
    return lines


def test_a_blank_line_comes_back_as_it_was_asked() -> None:
    assert read(blank("gcd", 7, "“?”\n\x1b")) == [Line(1, "gcd", 7, "“?”\n\x1b", ())]


def test_answers_are_read_in_their_order() -> None:
    (line,) = read(GOOD)
    assert line == Line(1, "gcd", 7, None, ("4", "5"))


def test_empty_lines_count_but_say_nothing() -> None:
    assert [line.number for line in read(f"\n{GOOD}\n  \r\n\n{GOOD.replace('7', '8')}")] == [2, 5]


def test_the_digest_is_of_the_answers_in_their_order() -> None:
    one, other, same = (
        Line(number, "gcd", number, None, texts)
        for number, texts in enumerate([("4", "5"), ("5", "4"), ("4", "5")])
    )
    assert one.digest == same.digest != other.digest
    assert Line(1, "gcd", 7, None, ('4", "5',)).digest != one.digest


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", "not JSON at column 1"),
        (GOOD[:-1], "not JSON at column"),
        (GOOD + GOOD, "Extra data"),
        ("[1]", "not a JSON object"),
        ("\ufeff" + GOOD, "not JSON at column 1"),
        (GOOD.replace('"4"', "NaN"), "NaN is no JSON value"),
        (GOOD.replace("7", "9" * 5000), "thousands of digits"),
        ("[" * 100_000, "nested too deeply"),
        (GOOD.replace("}", ', "counter": 8}'), "a key occurs twice"),
        (GOOD.replace("}", ', "reward": 1}'), "unknown key 'reward'"),
        (GOOD.replace("}", ', "\\u001b[2J": 1}'), r"unknown key '\x1b[2J'"),
        ('{"dataset": "gcd", "counter": 7}', "the key 'completions' is missing"),
        (GOOD.replace("7", "true"), "'counter' is true, not an integer"),
        (GOOD.replace("7", "7.0"), "'counter' is 7.0, not an integer"),
        (GOOD.replace("7", '"7"'), "'counter' is \"7\", not an integer"),
        (GOOD.replace("7", "-1"), "not from 0"),
        (GOOD.replace("7", str(2**53)), "not from 0"),
        (GOOD.replace('"gcd"', "3"), "'dataset' is 3, not a string"),
        (GOOD.replace('["4", "5"]', '"4"'), "'completions' is \"4\", not a list"),
        (GOOD.replace('"5"', "5"), "completion 2 is 5, not a string"),
        (GOOD.replace('"5"', "null"), "completion 2 is null"),
        (GOOD.replace('"5"', '"5\\u0000"'), "completion 2 holds a NUL at character 2"),
        (GOOD.replace('"5"', '"\\ud800"'), "completion 2 holds half a surrogate pair at character 1"),
        (GOOD.replace('"5"', '"\x07"'), "Invalid control character"),
        (GOOD.replace("}", ', "question": null}'), "'question' is null, not a string"),
    ],
)
def test_a_line_that_is_none_is_named(text: str, said: str) -> None:
    ((line, what),) = faults(f"{GOOD.replace('7', '6')}\n{text}")
    assert line == 2
    assert said in what
    assert what.isprintable()


def test_bytes_that_are_no_text_are_named() -> None:
    assert faults(b'{"dataset": "\xff"}') == [(1, "not UTF-8 at byte 13")]


def test_one_fault_does_not_hide_the_next() -> None:
    assert [line for line, _ in faults(f"x\n{GOOD}\n{{}}\n")] == [1, 3]


def test_a_question_answered_twice_is_named_with_both_places() -> None:
    assert faults(f"{GOOD}\n\n{GOOD}\n{GOOD}") == [
        (3, "counter 7 stands on line 1 too"),
        (4, "counter 7 stands on line 1 too"),
    ]


@pytest.mark.parametrize(
    ("limit", "value", "line"), [("LINE_BYTES_MAX", 70, 2), ("LINES_MAX", 1, 2), ("FILE_BYTES_MAX", 80, 2)]
)
def test_reading_ends_at_a_limit(monkeypatch: pytest.MonkeyPatch, limit: str, value: int, line: int) -> None:
    monkeypatch.setattr(room, limit, value)
    long = json.dumps({"dataset": "gcd", "counter": 8, "completions": ["4" * 100, "5"]})
    ((number, what),) = faults(f"{GOOD}\n{long}\n{GOOD}\n")
    assert number == line
    assert "over a limit" in what
