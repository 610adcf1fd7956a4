"""The answer in a completion: upstream's result in linear time, and the caps."""

import random

import pytest

from swarmd.questions.extract import (
    ANSWER_CHARS_MAX,
    COMPLETION_BYTES_MAX,
    answer_chars_max,
    extract_answer,
    fits,
)
from swarmd.questions.gym import load

_PIECES = ["<answer>", "</answer>", " ", "\n", "x", "<", "/answer>", "<answer", "1", "\t", "é"]


def test_tags_equal_upstream_on_random_mixtures() -> None:
    load(["gcd"])
    from reasoning_gym.utils import extract_answer as upstream

    rng = random.Random(1)
    for _ in range(20_000):
        text = "".join(rng.choice(_PIECES) for _ in range(rng.randint(0, 12)))
        assert extract_answer(text, "tags") == upstream(text), text


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>1</answer> no, <answer> 2 </answer>", "2"),
        ("<answer></answer>", ""),
        ("<answer><answer>1</answer></answer>", "<answer>1"),
        ("<answer>1", None),
        ("1</answer>", None),
        ("<ANSWER>1</ANSWER>", None),
        ("", None),
    ],
)
def test_tags(text: str, answer: str | None) -> None:
    assert extract_answer(text, "tags") == answer


def test_plain_is_the_whole_text_stripped() -> None:
    assert extract_answer("\n <answer>4 \t", "plain") == "<answer>4"


@pytest.mark.parametrize("text", ["<answer>" * 100_000, "</answer>" * 100_000, "<answer>" + "<" * 800_000])
def test_what_made_upstream_quadratic_ends(text: str) -> None:
    assert extract_answer(text, "tags") is None


def test_completion_cap_counts_bytes() -> None:
    assert fits("é" * (COMPLETION_BYTES_MAX // 2))
    assert not fits("é" * (COMPLETION_BYTES_MAX // 2 + 1))
    assert not fits("x" * (COMPLETION_BYTES_MAX + 1))


def test_a_lone_surrogate_is_not_text() -> None:
    assert not fits("\ud800")


def test_answer_cap_grows_with_the_oracle_up_to_a_limit() -> None:
    assert [answer_chars_max(oracle) for oracle in (None, "", "12345")] == [128, 128, 148]
    assert answer_chars_max("x" * 10_000) == ANSWER_CHARS_MAX
