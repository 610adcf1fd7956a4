"""Asking: new counters, no held-out questions, everything remembered before it is shown."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swarmd.contribute.ask import Question, datasets_named, draw_questions
from swarmd.contribute.ledger import Ledger
from swarmd.errors import ConfigError, DiskFull, LocalError
from swarmd.experience.counters import QuestionCounter
from swarmd.loops.streams import Streams
from swarmd.protocol.manifest import DatasetSpec
from tests.loops.fakes import FakeScorer
from tests.loops.parts import MANIFEST, ME


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(tmp_path / "contributed.sqlite", ME.public_key)
    yield ledger
    ledger.close()


async def draw(ledger: Ledger, num: int = 4, **changes: Any) -> list[Question]:
    counter = QuestionCounter(ledger._store.path.with_name("node.sqlite"))
    settings: dict[str, Any] = {
        "datasets": range(len(MANIFEST.datasets)),
        "reserve": counter.reserve,
        "ledger": ledger,
        "scorer": FakeScorer(MANIFEST),
        "manifest": MANIFEST,
        "author": ME.public_key,
        "streams": Streams(b"m" * 32, MANIFEST.digest),
        "deadline_s": 20.0,
    }
    try:
        return await draw_questions(num, **{**settings, **changes})
    finally:
        counter.close()


async def test_no_question_is_asked_twice(ledger: Ledger) -> None:
    first, second = await draw(ledger), await draw(ledger)
    assert len({question.counter for question in first + second}) == 8


async def test_what_is_asked_is_remembered(ledger: Ledger) -> None:
    asked = {question.counter: question.dataset for question in await draw(ledger, 40)}
    assert {counter: entry.dataset for counter, entry in ledger.find(asked).items()} == asked
    assert len(set(asked.values())) > 1


async def test_the_text_is_that_of_the_address(ledger: Ledger) -> None:
    for dataset, counter, prompt in await draw(ledger):
        seed = MANIFEST.question_seed(ME.public_key, dataset, counter)
        assert prompt == MANIFEST.render(f"question {dataset} {seed}")


async def test_only_the_named_datasets_are_asked(ledger: Ledger) -> None:
    named = datasets_named(MANIFEST, ["gcd", "lcm"])
    assert {question.dataset for question in await draw(ledger, 20, datasets=named)} == set(named)


async def test_held_out_questions_are_passed_over(ledger: Ledger) -> None:
    half = MANIFEST.model_copy(update={"held_out_per_mille": 500})
    questions = await draw(ledger, 20, scorer=FakeScorer(half))
    assert len(questions) == 20
    assert not any(half.is_held_out(question.prompt) for question in questions)
    assert questions[-1].counter > 20


async def test_a_dataset_of_held_out_questions_only_is_given_up(ledger: Ledger) -> None:
    scorer = FakeScorer(MANIFEST)
    scorer.questions = lambda items: {"prompts": ["q"] * len(items), "held_out": [True] * len(items)}  # type: ignore[method-assign]
    with pytest.raises(LocalError, match="only 0 of 4 questions"):
        await draw(ledger, scorer=scorer)


async def test_questions_that_cannot_be_remembered_are_not_shown(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(swarm: bytes, addresses: Any) -> None:
        raise DiskFull("no space")

    monkeypatch.setattr(ledger, "ask", full)
    with pytest.raises(DiskFull):
        await draw(ledger)


def test_a_name_stands_for_every_dataset_that_has_it() -> None:
    twice = MANIFEST.model_copy(update={"datasets": (*MANIFEST.datasets, DatasetSpec(name="gcd"))})
    numbers = [number for number, dataset in enumerate(twice.datasets) if dataset.name == "gcd"]
    assert datasets_named(twice, ["gcd"]) == numbers
    assert len(numbers) == 2


def test_no_names_are_all() -> None:
    assert datasets_named(MANIFEST, []) == list(range(len(MANIFEST.datasets)))


def test_an_unknown_dataset_is_told_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="'x'") as caught:
        datasets_named(MANIFEST, ["gcd", "x"])
    assert "count_bits" in caught.value.why
