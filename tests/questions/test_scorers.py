"""Scoring in the process itself, without any sandbox: nothing evaluates a text, nothing raises, nothing hangs."""

from pathlib import Path

import pytest

from swarmd.questions.datasets import OFFERED
from swarmd.questions.regenerate import DatasetChoice, QuestionSource
from swarmd.questions.scorers import Reason, score
from tests.questions.hostile import payloads


@pytest.mark.parametrize("name", OFFERED)
def test_hostile_answers_change_nothing(name: str, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    source = QuestionSource(DatasetChoice(name, {}, "exact" if OFFERED[name].exact_only else "upstream"))
    item = source.item(11)
    for text in payloads(str(marker)):
        for completion in (text, f"<answer>{text}</answer>"):
            result = score(completion, item, source, "tags" if completion != text else "plain")
            assert 0.0 <= result.reward <= 1.0, text
    assert not marker.exists()


def test_upstream_would_have_run_it(tmp_path: Path) -> None:
    """The payloads are live: this is what our own rules are for."""
    marker = tmp_path / "marker"
    source = QuestionSource(DatasetChoice("binary_matrix", {}, "upstream"))
    source.dataset.score_answer(payloads(str(marker))[0], source.item(11))
    assert marker.exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("no tags", Reason.NO_ANSWER),
        ("<answer>1</answer>" + " " * 16_384, Reason.OVERSIZE),
        (f"<answer>{'1' * 200}</answer>", Reason.ANSWER_TOO_LONG),
        ("<answer>[[1, 2], 3]</answer>", Reason.REFUSED),
        ("<answer>2 * 3</answer>", Reason.REFUSED),
    ],
)
def test_reasons(text: str, reason: Reason) -> None:
    source = QuestionSource(DatasetChoice("binary_matrix", {"min_n": 2, "max_n": 2}, "upstream"))
    assert score(text, source.item(1), source, "tags").reason is reason


def test_a_scorer_that_raises_scores_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    source = QuestionSource(DatasetChoice("gcd", {}, "upstream"))

    def overflow(answer: str, item: object) -> float:
        raise OverflowError

    monkeypatch.setattr(source.dataset, "score_answer", overflow)
    assert score("1", source.item(1), source, "plain").reason is Reason.SCORER_ERROR


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1, 1.5])
def test_a_reward_outside_the_range_counts_nothing(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    source = QuestionSource(DatasetChoice("gcd", {}, "upstream"))
    monkeypatch.setattr(source.dataset, "score_answer", lambda answer, item: value)
    result = score("1", source.item(1), source, "plain")
    assert (result.reward, result.reason) == (0.0, Reason.OUT_OF_RANGE)
