"""A family of datasets needs its own file and a row in `FAMILIES`: nothing else knows a library."""

import ast
from pathlib import Path

import pytest

from swarmd.errors import IncompatibleSwarm
from swarmd.questions import datasets, gym
from swarmd.questions.family import Family, Item, Offer, Params
from swarmd.questions.golden import golden, verify
from swarmd.questions.parameters import Whole
from swarmd.questions.regenerate import DatasetChoice, QuestionSource
from swarmd.questions.scorers import Reason, Score, score

ROOM = Path(gym.__file__).parent
OF_THE_LIBRARY = {"gym.py", "gym_datasets.py"}


class Doubles:
    """What is twice the seed?"""

    seed: int | None = None

    def __init__(self, most: object) -> None:
        self._most = most

    def __getitem__(self, index: int) -> Item:
        number = (self.seed or 0) + index
        return {"question": f"2 * {number}?", "answer": str(2 * number), "metadata": {"most": self._most}}

    def score_answer(self, answer: str, entry: Item) -> float:
        return float(answer == entry["answer"])


def make(name: str, params: Params) -> Doubles:
    return Doubles(params.get("most"))


MADE_UP = Family(
    "msgpack",
    "1.0",
    {"doubles": Offer("", {"most": Whole(1, 9)}), "harsh": Offer("", own=lambda answer, item: 0.0)},
    {"triples": "nobody can"},
    make,
)


@pytest.fixture(autouse=True)
def _with_the_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "FAMILIES", (*datasets.FAMILIES, MADE_UP))


def test_its_questions_are_scored_by_the_library_or_by_the_offers_own_rule() -> None:
    for name, reward in (("doubles", 1.0), ("harsh", 0.0)):
        source = QuestionSource(DatasetChoice(name, {}, "exact"))
        assert score("<answer>42</answer>", source.item(21), source, "tags") == Score(reward, Reason.SCORED)


def test_its_golden_digest_is_compared_and_the_package_is_named() -> None:
    digest = golden(QuestionSource(DatasetChoice("doubles", {"most": 3}, "exact")))
    assert verify([QuestionSource(DatasetChoice("doubles", {"most": 3}, "exact", digest))]) == [digest]
    with pytest.raises(IncompatibleSwarm, match="install msgpack"):
        verify([QuestionSource(DatasetChoice("doubles", {"most": 4}, "exact", digest))])


def test_what_it_refuses_says_why() -> None:
    with pytest.raises(IncompatibleSwarm, match="nobody can"):
        datasets.family_of("triples")


def test_no_name_is_in_two_families() -> None:
    names = [name for family in datasets.FAMILIES for name in family.offered]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("path", sorted(set(ROOM.glob("*.py"))), ids=lambda path: path.name)
def test_only_its_own_files_name_the_library(path: Path) -> None:
    if path.name in OF_THE_LIBRARY:
        return
    tree = ast.parse(path.read_text())
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    named = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told
    ]
    assert not [text for text in named if "reasoning" in text]
