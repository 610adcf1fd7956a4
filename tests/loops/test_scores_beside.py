"""Scores beside the next generation: where the staleness bound leaves room, in order, and with every failure where it belongs."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from swarmd.clients.policy import Generated
from swarmd.errors import ChildDied, LocalError
from tests.loops.fakes import BAD
from tests.loops.parts import MANIFEST, Loops

ALL_ASKED = MANIFEST.model_copy(update={"held_out_per_mille": 0})


def with_slow_scorer(staleness_max: int) -> Loops:
    """The scorer scores nothing until its gate is opened."""
    loops = Loops(manifest=ALL_ASKED, staleness_max=staleness_max)
    loops.scorer.gates["score"] = trio.Event()
    return loops


@asynccontextmanager
async def generating(loops: Loops, *, generations_max: int = 1) -> AsyncIterator[None]:
    """The loop runs, and has nothing left to do but wait."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(loops.generate(generations_max=generations_max).run)
        await trio.testing.wait_all_tasks_blocked()
        yield
        nursery.cancel_scope.cancel()


def num_generations(loops: Loops) -> int:
    return len(loops.generator.asked("generate"))


def scored_counters(loops: Loops) -> list[list[int]]:
    """Those of each round in the pool, the oldest first."""
    pool = loops.progress.pool
    return [[rollout.counter for rollout in pool.take().rollouts] for _ in range(len(pool))]


async def test_the_next_generation_does_not_wait_for_scores() -> None:
    loops = with_slow_scorer(staleness_max=1)
    async with generating(loops):
        assert (num_generations(loops), len(loops.progress.pool)) == (2, 0)


async def test_a_bound_of_zero_leaves_nothing_to_do_beside_scores() -> None:
    loops = with_slow_scorer(staleness_max=0)
    async with generating(loops):
        assert num_generations(loops) == 1
        assert [op for op, _ in loops.scorer.calls] == ["questions", "score"]


async def test_the_scorer_gives_the_next_questions_before_it_scores(
    autojump_clock: trio.testing.MockClock,
) -> None:
    # given a disk that takes a while to write question counters down
    loops = with_slow_scorer(staleness_max=1)
    generate = loops.generate()

    async def slowly(function: Callable[..., Any], *args: Any) -> Any:
        await trio.sleep(1)
        return function(*args)

    generate.ask.run_blocking = slowly  # type: ignore[assignment]
    with trio.move_on_after(5):
        await generate.run()
    assert [op for op, _ in loops.scorer.calls] == ["questions", "questions", "score"]


@pytest.mark.parametrize("staleness_max", [1, 2, 5])
async def test_one_round_is_scored_at_a_time_and_they_stay_in_order(staleness_max: int) -> None:
    loops = with_slow_scorer(staleness_max)
    async with generating(loops):
        assert num_generations(loops) == 2
        loops.scorer.gates["score"].set()
        await trio.testing.wait_all_tasks_blocked()
        rounds = scored_counters(loops)
    assert rounds == [[4 * n, 4 * n + 1, 4 * n + 2, 4 * n + 3] for n in range(staleness_max + 1)]


async def test_scores_that_are_lost_cost_their_round_alone(autojump_clock: trio.testing.MockClock) -> None:
    loops = with_slow_scorer(staleness_max=1)
    loops.scorer.fail("score", LocalError("the scorer is ill"))
    async with generating(loops):
        loops.scorer.gates["score"].set()
        await trio.sleep(5)
        assert scored_counters(loops) == [[4, 5, 6, 7], [8, 9, 10, 11]]


async def test_after_lost_scores_the_next_ones_wait_as_after_a_lost_generation(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Loops(manifest=ALL_ASKED, staleness_max=5)
    loops.scorer.fail("score", *[ChildDied("gone")] * 4)
    with trio.move_on_after(16):
        await loops.generate().run()
    score_times_s = [
        at_s
        for (op, _), at_s in zip(loops.scorer.calls, loops.scorer.call_times_s, strict=True)
        if op == "score"
    ]
    assert score_times_s[:5] == [0, 1, 3, 7, 15]


async def test_lost_scores_are_shown_until_a_later_round_is_scored(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Loops(manifest=ALL_ASKED, staleness_max=1)
    ill = LocalError("the scorer is ill")
    loops.scorer.fail("score", ill)
    async with generating(loops):
        await trio.sleep(0.5)
        assert loops.progress.shown.generate_error is ill
        await trio.sleep(1)
        assert loops.progress.shown.generate_error is None


async def test_scores_of_an_earlier_round_do_not_hide_a_generation_that_fails(
    autojump_clock: trio.testing.MockClock,
) -> None:
    # given a generation that fails while the one before it is being scored
    loops = with_slow_scorer(staleness_max=1)
    broken = LocalError("CUDA error")
    answer = loops.generator.generate

    def then_break(**args: Any) -> Generated:
        loops.generator.fail("generate", *[broken] * 9)
        return answer(**args)

    loops.generator.generate = then_break  # type: ignore[method-assign]
    async with generating(loops):
        # when its scores come
        loops.scorer.gates["score"].set()
        await trio.sleep(0.5)
        # then
        assert len(loops.progress.pool) == 1
        assert loops.progress.shown.generate_error is broken


async def test_further_generations_of_a_round_wait_for_the_scores_that_they_depend_on() -> None:
    loops = with_slow_scorer(staleness_max=3)
    loops.generator.texts = [BAD, BAD]
    async with generating(loops, generations_max=2):
        assert num_generations(loops) == 1


async def test_a_round_whose_last_scores_are_lost_goes_on_with_the_others() -> None:
    loops = Loops(manifest=ALL_ASKED, staleness_max=0)
    loops.generator.texts = [BAD, BAD]
    generate = loops.generate(generations_max=2)
    score = loops.scorer.score

    def then_ill(**args: object) -> object:
        loops.scorer.fail("score", LocalError("the scorer is ill"))
        return score(**args)  # type: ignore[arg-type]

    loops.scorer.score = then_ill  # type: ignore[assignment, method-assign]
    await generate.once()
    assert scored_counters(loops) == [[0, 1, 2, 3]]


async def test_a_stop_leaves_unscored_rounds_behind() -> None:
    loops = with_slow_scorer(staleness_max=1)
    async with generating(loops):
        pass
    assert (len(loops.progress.pool), loops.progress.shown.generate_error) == (0, None)


async def test_our_own_mistakes_in_scores_end_the_loop() -> None:
    loops = Loops(staleness_max=1)
    loops.scorer.reward_of = lambda text: [][0]
    with pytest.raises(IndexError):
        await loops.generate().run()


async def test_questions_and_seeds_are_those_of_rounds_one_after_the_other() -> None:
    beside, alone = Loops(manifest=ALL_ASKED, staleness_max=2), Loops(manifest=ALL_ASKED)
    async with generating(beside):
        pass
    for _ in range(3):
        await alone.generate().once()
    assert beside.generator.asked("generate") == alone.generator.asked("generate")
    assert beside.scorer.asked("score") == alone.scorer.asked("score")
