"""What a rollout proves: as much as it has of an own one, with floors for honest authors of every kind."""

import pytest

from swarmd.trust.proof import SIGNAL_MIN, TEXT_MIN, OwnWork, Text


def answered(num_chars: int) -> Text:
    """Text of completions that all have an answer."""
    return Text(num_chars, 0, 1.0)


def own(num_chars: int = 800, *, informative: float = 0.5) -> OwnWork:
    """A node whose rollouts are like this."""
    work = OwnWork()
    for number in range(64):
        work.observe(answered(num_chars), informative=number < 64 * informative)
    return work


@pytest.mark.parametrize(
    ("num_chars", "informative", "expected"),
    [(800, True, 1.0), (8000, True, 1.0), (400, True, 0.5), (800, False, 0.5), (0, True, 0.0), (0, False, 0.0),
     (2, True, TEXT_MIN), (2, False, TEXT_MIN / 2)],
)  # fmt: skip
def test_a_rollout_proves_what_it_has_of_an_own_one(
    num_chars: int, informative: bool, expected: float
) -> None:
    assert own().worth(answered(num_chars), informative=informative) == pytest.approx(expected)


def test_where_own_rewards_differ_seldom_others_need_not_either() -> None:
    assert own(informative=0.0).worth(answered(800), informative=False) == 1.0
    assert own(informative=1.0).worth(answered(800), informative=False) == SIGNAL_MIN


def test_before_a_node_has_rollouts_of_its_own_little_is_proven() -> None:
    assert OwnWork().worth(answered(10_000), informative=True) == TEXT_MIN


def test_the_measure_follows_what_the_node_writes_lately() -> None:
    work = own(100)
    for _ in range(640):
        work.observe(answered(1000), informative=True)
    assert work.text.num_answered_chars == pytest.approx(1000, rel=0.01)


@pytest.mark.parametrize(
    ("who", "num_chars", "informative", "rollouts"),
    [("alike", 800, 0.5, 43), ("half as long", 400, 0.5, 86), ("always right", 800, 0.0, 64),
     ("a person with two short answers", 30, 1.0, 256)],
)  # fmt: skip
def test_honest_newcomers_of_every_kind_become_proven(
    who: str, num_chars: int, informative: float, rollouts: int
) -> None:
    work = own()
    mean = informative * work.worth(answered(num_chars), informative=True)
    mean += (1 - informative) * work.worth(answered(num_chars), informative=False)
    assert rollouts - 1 < 32 / mean <= rollouts, who


@pytest.mark.parametrize(("answered_share", "expected"), [(0.0, 1.0), (0.1, 0.9), (1.0, 0.0)])
def test_text_without_an_answer_counts_as_it_is_common_here(answered_share: float, expected: float) -> None:
    work = OwnWork()
    work.observe(Text(800 * answered_share, 800 * (1 - answered_share), answered_share), informative=False)
    weight = 800 * answered_share + (1 - answered_share) ** 2 * 800
    found = work.worth(Text(0, weight, 0.0), informative=False)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("reason", ["", "no_answer"])
def test_empty_texts_prove_nothing_to_a_fresh_node_either(reason: str) -> None:
    work = OwnWork()
    work.observe(Text(0, 40, 0.0), informative=False)
    assert work.worth(Text.of(["", ""], [reason] * 2), informative=False) == 0.0
