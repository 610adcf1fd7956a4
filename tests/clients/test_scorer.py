"""A stranger's batch in pieces: nothing is lost or reordered, no piece is large, and one deadline holds for all."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmd.clients.scorer import (
    COMPLETIONS_MAX,
    HELD_S,
    HELD_S_A_COMPLETION,
    ITEMS_MAX,
    ScoreItem,
    Scorer,
    Scores,
    pieces,
)
from swarmd.errors import LocalError
from tests.loops.fakes import FakeScorer
from tests.loops.parts import MANIFEST

MANY = [ScoreItem(0, seed, ["bad"] * 64) for seed in range(20)]


@given(st.lists(st.integers(1, 64) | st.just(1), min_size=1, max_size=200))
def test_pieces_are_the_items_in_order_and_none_is_too_large(sizes: list[int]) -> None:
    items = [ScoreItem(0, seed, ["text"] * size) for seed, size in enumerate(sizes)]
    found = list(pieces(items))
    assert [item for piece in found for item in piece] == items
    assert all(sum(len(texts) for _, _, texts in piece) <= COMPLETIONS_MAX for piece in found)
    assert all(len(piece) <= ITEMS_MAX for piece in found)


def test_an_item_larger_than_a_piece_is_one_by_itself() -> None:
    items = [ScoreItem(0, seed, ["text"] * size) for seed, size in enumerate((1, COMPLETIONS_MAX + 1, 1))]
    assert [len(piece) for piece in pieces(items)] == [1, 1, 1]


async def test_the_whole_is_what_one_call_would_have_answered() -> None:
    scorer = FakeScorer(MANIFEST)
    items = [ScoreItem(0, seed, ["good", "bad"] * 32) for seed in range(20)]
    once = scorer.score(items, 20.0)
    found = await Scorer(scorer, 20.0).score_external(items)
    assert found._replace(cpu_s=0.0) == once._replace(cpu_s=0.0)
    assert found.cpu_s > once.cpu_s


async def test_reasons_add_up_and_the_deadline_only_shrinks() -> None:
    scorer = FakeScorer(MANIFEST)
    scorer.reason_of = lambda text: "no_answer"
    found = await Scorer(scorer, 20.0).score_external(MANY)
    deadlines_s = [asked["deadline_s"] for asked in scorer.asked("score_external")]
    assert found.reasons == {"no_answer": 20 * 64}
    assert len(deadlines_s) == 3
    assert sorted(deadlines_s, reverse=True) == deadlines_s
    assert deadlines_s[0] <= 20.0


async def test_what_workers_may_hold_their_place_for_goes_by_the_work_and_only_shrinks() -> None:
    class Slow(FakeScorer):
        def score_external(self, items: Sequence[ScoreItem], deadline_s: float, held_s_max: float) -> Scores:
            return super().score_external(items, deadline_s, held_s_max)._replace(held_s=0.25)

    scorer = Slow(MANIFEST)
    await Scorer(scorer, 20.0).score_external(MANY)
    allowed_s = [asked["held_s_max"] for asked in scorer.asked("score_external")]
    most_s = HELD_S + HELD_S_A_COMPLETION * 64 * 20
    assert allowed_s == pytest.approx([most_s, most_s - 0.25, most_s - 0.5])


async def test_nothing_is_asked_after_a_worker_was_ended() -> None:
    scorer = FakeScorer(MANIFEST)
    scorer.reason_of = lambda text: "deadline"
    found = await Scorer(scorer, 20.0).score_external(MANY)
    assert (len(scorer.calls), found.reasons) == (1, {"deadline": COMPLETIONS_MAX})


async def test_no_piece_is_asked_after_one_failed() -> None:
    class Dying(FakeScorer):
        num_calls = 0

        def score(self, items: Sequence[ScoreItem], deadline_s: float) -> Scores:
            self.num_calls += 1
            raise LocalError("gone")

    scorer = Dying(MANIFEST)
    try:
        await Scorer(scorer, 20.0).score_external(MANY)
    except LocalError:
        assert scorer.num_calls == 1
    else:
        raise AssertionError("a dead scorer is an error")


async def test_nothing_is_asked_after_a_held_out_question() -> None:
    class Asked(FakeScorer):
        num_items = 0

        def score(self, items: Sequence[ScoreItem], deadline_s: float) -> Scores:
            self.num_items += len(items)
            found = super().score(items, deadline_s)
            return found._replace(held_out=[item.seed == 9 for item in items])

    scorer = Asked(MANIFEST)
    found = await Scorer(scorer, 20.0).score_external(
        [ScoreItem(0, seed, ["bad"] * 64) for seed in range(64)]
    )
    assert any(found.held_out)
    assert scorer.num_items == len(found.held_out) == 16
