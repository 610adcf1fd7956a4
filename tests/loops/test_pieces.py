"""A batch in pieces: nothing is lost or reordered, no piece is large, and one deadline holds for all."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmd.errors import LocalError
from swarmd.loops.pieces import (
    COMPLETIONS_MAX,
    HELD_S,
    HELD_S_A_COMPLETION,
    ITEMS_MAX,
    pieces,
    score_in_pieces,
)
from tests.loops.fakes import FakeScorer
from tests.loops.parts import MANIFEST


@given(st.lists(st.integers(1, 64) | st.just(1), min_size=1, max_size=200))
def test_pieces_are_the_items_in_order_and_none_is_too_large(sizes: list[int]) -> None:
    items = [[0, seed, ["text"] * size] for seed, size in enumerate(sizes)]
    found = list(pieces(items))
    assert [item for piece in found for item in piece] == items
    assert all(sum(len(texts) for _, _, texts in piece) <= COMPLETIONS_MAX for piece in found)
    assert all(len(piece) <= ITEMS_MAX for piece in found)


def test_an_item_larger_than_a_piece_is_one_by_itself() -> None:
    items = [[0, seed, ["text"] * size] for seed, size in enumerate((1, COMPLETIONS_MAX + 1, 1))]
    assert [len(piece) for piece in pieces(items)] == [1, 1, 1]


async def test_the_whole_is_what_one_call_would_have_answered() -> None:
    scorer = FakeScorer(MANIFEST)
    items = [[0, seed, ["good", "bad"] * 32] for seed in range(20)]
    once = scorer.score(items, 20.0)
    found = await score_in_pieces(scorer, items, 20.0)
    assert {**found, "cpu_s": None} == {**once, "cpu_s": None}
    assert found["cpu_s"] > once["cpu_s"]


async def test_reasons_add_up_and_the_deadline_only_shrinks() -> None:
    asked: list[float] = []

    class Failing(FakeScorer):
        def score(self, items: list[list[Any]], deadline_s: float) -> dict[str, Any]:
            asked.append(deadline_s)
            return {**super().score(items, deadline_s), "reasons": {"no_answer": 2}}

    found = await score_in_pieces(Failing(MANIFEST), [[0, seed, ["bad"] * 64] for seed in range(20)], 20.0)
    assert found["reasons"] == {"no_answer": 2 * len(asked)}
    assert len(asked) == 3
    assert sorted(asked, reverse=True) == asked
    assert asked[0] <= 20.0


async def test_what_workers_may_hold_their_place_for_goes_by_the_work_and_only_shrinks() -> None:
    class Slow(FakeScorer):
        def score_external(
            self, items: list[list[Any]], deadline_s: float, held_s_max: float
        ) -> dict[str, Any]:
            return {**super().score_external(items, deadline_s, held_s_max), "held_s": 0.25}

    scorer = Slow(MANIFEST)
    await score_in_pieces(scorer, [[0, seed, ["bad"] * 64] for seed in range(20)], 20.0)
    allowed_s = [asked["held_s_max"] for asked in scorer.asked("score_external")]
    most_s = HELD_S + HELD_S_A_COMPLETION * 64 * 20
    assert allowed_s == pytest.approx([most_s, most_s - 0.25, most_s - 0.5])


async def test_nothing_is_asked_after_a_worker_was_ended() -> None:
    scorer = FakeScorer(MANIFEST)
    scorer.reason_of = lambda text: "deadline"
    found = await score_in_pieces(scorer, [[0, seed, ["bad"] * 64] for seed in range(20)], 20.0)
    assert (len(scorer.calls), found["reasons"]) == (1, {"deadline": COMPLETIONS_MAX})


async def test_no_piece_is_asked_after_one_failed() -> None:
    class Dying(FakeScorer):
        num_calls = 0

        def score(self, items: list[list[Any]], deadline_s: float) -> dict[str, Any]:
            self.num_calls += 1
            raise LocalError("gone")

    scorer = Dying(MANIFEST)
    try:
        await score_in_pieces(scorer, [[0, seed, ["bad"] * 64] for seed in range(20)], 20.0)
    except LocalError:
        assert scorer.num_calls == 1
    else:
        raise AssertionError("a dead scorer is an error")


async def test_nothing_is_asked_after_a_held_out_question() -> None:
    class Asked(FakeScorer):
        num_items = 0

        def score(self, items: list[list[Any]], deadline_s: float) -> dict[str, Any]:
            self.num_items += len(items)
            found = super().score(items, deadline_s)
            return {**found, "held_out": [seed == 9 for _, seed, _ in items]}

    scorer = Asked(MANIFEST)
    found = await score_in_pieces(scorer, [[0, seed, ["bad"] * 64] for seed in range(64)], 20.0)
    assert any(found["held_out"])
    assert scorer.num_items == len(found["held_out"]) == 16
