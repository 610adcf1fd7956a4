"""Known items: what is recorded, and what a difference leads to."""

import tomllib
from importlib import resources

import pytest

from swarmd.errors import IncompatibleSwarm
from swarmd.questions import selftest
from swarmd.questions.guards import GUARDS
from swarmd.questions.regenerate import DatasetChoice, QuestionSource


def test_the_records_are_those_of_the_installed_package() -> None:
    folder = resources.files("swarmd.protocol").joinpath("manifests")
    manifests = [tomllib.loads(f.read_text()) for f in folder.iterdir() if f.name.endswith(".toml")]
    recorded = resources.files("swarmd.questions").joinpath("selftest.json").read_text()
    assert recorded == selftest.write_records(manifests)


def test_every_offered_dataset_passes_with_defaults() -> None:
    sources = [QuestionSource(DatasetChoice(name, {}, "exact")) for name in GUARDS]
    assert selftest.verify(sources) == len(GUARDS)


def test_a_different_question_refuses_to_join(monkeypatch: pytest.MonkeyPatch) -> None:
    source = QuestionSource(DatasetChoice("gcd", {}, "exact"))
    genuine = source.item
    monkeypatch.setattr(source, "item", lambda seed: {**genuine(seed), "question": "another?"})
    with pytest.raises(IncompatibleSwarm, match=r"self-test: dataset gcd .*\n.*digest"):
        selftest.verify([source])


def test_unrecorded_parameters_fall_back_to_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    source = QuestionSource(DatasetChoice("gcd", {"max_value": 77}, "exact"))
    tested: list[dict[str, object]] = []
    genuine = selftest.digest
    monkeypatch.setattr(selftest, "digest", lambda s: tested.append(s.params) or genuine(s))
    selftest.verify([source])
    assert tested == [{}]
