"""Asking at a desk: new counters, everything remembered before it is shown."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from swarmd.config import Config
from swarmd.contribute.desk import Desk
from swarmd.contribute.ledger import Ledger
from swarmd.errors import DiskFull
from swarmd.files.datadir import DataDir
from swarmd.loops.ask import Question
from swarmd.node.own import open_counter
from tests.loops.fakes import FakeScorer
from tests.loops.parts import MANIFEST, ME

ALL = range(len(MANIFEST.datasets))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    ledger = Ledger(tmp_path / "contributed.sqlite", ME.public_key)
    yield Desk(
        config=Config(),
        data_dir=DataDir(tmp_path),
        seed=b"m" * 32,
        identity=ME,
        manifest=MANIFEST,
        ledger=ledger,
        counter=partial(open_counter, DataDir(tmp_path), {}, new=True),
        beside_node=False,
        say=lambda line: None,
    )
    ledger.close()


async def draw(desk: Desk, num: int = 4) -> list[Question]:
    return await desk.draw(num, ALL, FakeScorer(MANIFEST))


async def test_no_question_is_asked_twice(desk: Desk) -> None:
    first, second = await draw(desk), await draw(desk)
    assert len({question.counter for question in first + second}) == 8


async def test_what_is_asked_is_remembered(desk: Desk) -> None:
    asked = {question.counter: question.dataset for question in await draw(desk, 40)}
    found = desk.ledger.find(asked)
    assert {counter: entry.dataset for counter, entry in found.items()} == asked
    assert {entry.swarm for entry in found.values()} == {MANIFEST.digest}


async def test_the_text_is_that_of_the_address(desk: Desk) -> None:
    for question in await draw(desk):
        seed = MANIFEST.question_seed(ME.public_key, question.dataset, question.counter)
        assert question.prompt == MANIFEST.render(f"question {question.dataset} {seed}")


async def test_only_the_chosen_datasets_are_asked(desk: Desk) -> None:
    questions = await desk.draw(20, [2, 4], FakeScorer(MANIFEST))
    assert {question.dataset for question in questions} == {2, 4}


async def test_questions_that_cannot_be_remembered_are_not_shown(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(swarm: bytes, addresses: Any) -> None:
        raise DiskFull("no space")

    monkeypatch.setattr(desk.ledger, "ask", full)
    with pytest.raises(DiskFull):
        await draw(desk)
