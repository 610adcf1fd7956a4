"""A child that never answers is given up by every loop that asks it."""

import math
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from swarmd.errors import ChildDied, LocalError
from tests.loops.parts import Loops, own_batch, sealed

A_DAY_S = 86_400.0


def hanging(child: str, op: str) -> Loops:
    loops = Loops(split=True)
    getattr(loops, child).delays_s = lambda asked: math.inf if asked == op else 0.0
    return loops


CASES: list[tuple[str, str, Callable[[Loops], Awaitable[object]]]] = [
    ("generator", "generate", lambda loops: loops.generate().once()),
    ("scorer", "questions", lambda loops: loops.generate().once()),
    ("scorer", "score", lambda loops: loops.generate().once()),
    ("generator", "generate", lambda loops: loops.evaluate().once(round=0)),
    ("scorer", "questions", lambda loops: loops.evaluate().once(round=0)),
    ("scorer", "score", lambda loops: loops.evaluate().once(round=0)),
]


@pytest.mark.parametrize(("child", "op", "ask"), CASES)
async def test_a_hanging_child_ends_the_wait(
    child: str, op: str, ask: Callable[[Loops], Awaitable[object]], autojump_clock: trio.testing.MockClock
) -> None:
    with trio.fail_after(A_DAY_S), pytest.raises(ChildDied):
        await ask(hanging(child, op))


async def test_a_batch_whose_scorer_hangs_is_discarded(autojump_clock: trio.testing.MockClock) -> None:
    loops = hanging("scorer", "score_external")
    _, inbox = trio.open_memory_channel[bytes](1)
    with trio.fail_after(A_DAY_S):
        await loops.ingest(inbox).once(sealed([1]))
    assert loops.count("buffer_discarded_total", reason="scorer_failed") == 1


async def test_a_hanging_update_is_given_up_after_its_attempts(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = hanging("learner", "update")
    with trio.fail_after(A_DAY_S), pytest.raises(LocalError, match="died 3 times"):
        await loops.update().once(own_batch())


async def test_a_last_checkpoint_that_hangs_does_not_keep_the_node(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Loops()
    update = loops.update(checkpoint_every_rounds=5, rounds_max=None)
    await update.once(own_batch())
    loops.learner.delays_s = lambda op: math.inf
    loops.progress.request_stop()
    with trio.fail_after(A_DAY_S):
        await update.run()
    assert isinstance(loops.progress.shown.checkpoint_error, ChildDied)
