"""Copied texts: only long ones, only of another author, only for the same dataset."""

import pytest

from swarmd.trust.copies import TEXT_BYTES_MIN, Copies

LONG = "x" * TEXT_BYTES_MIN
A, B = b"a" * 32, b"b" * 32


def test_a_text_that_another_author_signed_before_is_a_copy() -> None:
    copies = Copies()
    assert [copies.count(A, 0, [LONG]), copies.count(B, 0, [LONG, LONG])] == [0, 2]


@pytest.mark.parametrize(
    ("author", "dataset", "text"),
    [(A, 0, LONG), (B, 1, LONG), (B, 0, LONG + "."), (B, 0, LONG[1:])],
    ids=["own", "another dataset", "another text", "short"],
)
def test_anything_else_is_none(author: bytes, dataset: int, text: str) -> None:
    copies = Copies()
    copies.count(A, 0, [LONG, LONG[1:]])
    assert copies.count(author, dataset, [text]) == 0


def test_the_memory_is_bounded() -> None:
    copies = Copies(texts_max=10)
    for number in range(100):
        copies.count(A, 0, [LONG + str(number)])
    assert copies.count(B, 0, [LONG + str(number) for number in range(90, 100)]) == 10
    assert copies.count(B, 0, [LONG + str(number) for number in range(50)]) == 0
