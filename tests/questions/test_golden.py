"""The golden digest: what it covers, and what a difference leads to."""

import json
from typing import Any

import pytest

from swarmd.errors import IncompatibleSwarm
from swarmd.questions.datasets import OFFERED
from swarmd.questions.golden import SEEDS, golden, json_line, verify
from swarmd.questions.regenerate import DatasetChoice, QuestionSource


def gcd(golden_digest: str = "", **params: Any) -> QuestionSource:
    return QuestionSource(DatasetChoice("gcd", params, "exact", golden_digest))


def test_the_known_seeds_are_those_of_the_prose() -> None:
    assert SEEDS[:5] == (0, 1, 2**31 - 1, 506952113, 1013904226)
    assert len(set(SEEDS)) == len(SEEDS) == 32
    assert all(0 <= seed < 2**31 for seed in SEEDS)


@pytest.mark.parametrize("name", OFFERED)
def test_every_offered_dataset_has_a_plain_canonical_form(name: str) -> None:
    """Only text, numbers, booleans, null, arrays and maps with text keys: what any language can write down."""
    source = QuestionSource(DatasetChoice(name, {}, "exact"))
    item = source.item(SEEDS[3])
    question, answer, metadata = json.loads(json_line(source, SEEDS[3]))
    assert (question, answer) == (item["question"], item["answer"])
    assert metadata == json.loads(json.dumps(item["metadata"]))
    assert set(metadata) == set(item["metadata"])


@pytest.mark.parametrize("part", ["question", "answer", "metadata"])
def test_question_answer_and_metadata_all_count(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source, known = gcd(), golden(gcd())
    genuine = source.item
    monkeypatch.setattr(
        source,
        "item",
        lambda seed: {**genuine(seed), part: "another"} if seed == SEEDS[-1] else genuine(seed),
    )
    assert golden(source) != known


def test_parameters_count() -> None:
    assert len({golden(gcd()), golden(gcd(max_value=77)), golden(gcd(max_value=78))}) == 3


def test_a_seed_that_fails_is_null(monkeypatch: pytest.MonkeyPatch) -> None:
    source = gcd()

    def fail(seed: int) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(source, "item", fail)
    assert json_line(source, 1) == b"null"


def test_the_digest_of_the_manifest_is_compared() -> None:
    known = golden(gcd(max_value=77))
    assert verify([gcd(known, max_value=77), gcd()]) == [known, golden(gcd())]


@pytest.mark.parametrize("params", [{}, {"max_value": 78}])
def test_another_generator_refuses_to_join(params: dict[str, Any]) -> None:
    known = golden(gcd(max_value=77))
    with pytest.raises(IncompatibleSwarm, match=rf"dataset 1, gcd.*\n.*{known[:16]} in the manifest"):
        verify([gcd(), gcd(known, **params)])
