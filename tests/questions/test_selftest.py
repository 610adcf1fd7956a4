"""Known items of every offered dataset: what is recorded, and what a difference leads to."""

from importlib import resources

import pytest

from swarmd.errors import IncompatibleSwarm
from swarmd.questions import selftest
from swarmd.questions.datasets import OFFERED


def test_the_records_are_those_of_the_installed_package() -> None:
    recorded = resources.files("swarmd.questions").joinpath("selftest.json").read_text()
    assert recorded == selftest.known_text()


def test_every_offered_dataset_passes_with_defaults() -> None:
    selftest.verify_defaults(list(OFFERED))


def test_a_changed_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = selftest.QuestionSource.item
    monkeypatch.setattr(
        selftest.QuestionSource, "item", lambda self, seed: {**genuine(self, seed), "answer": "another"}
    )
    with pytest.raises(IncompatibleSwarm, match=r"dataset 0, gcd"):
        selftest.verify_defaults(["gcd"])
