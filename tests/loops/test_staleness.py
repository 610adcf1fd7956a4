"""The staleness bound, under random durations of every operation, with one process and with two."""

import random

import pytest
import trio
import trio.testing

from swarmd.errors import ChildDied, LocalError
from tests.loops.parts import Loops

DURATIONS_S = (0.0, 0.0, 0.1, 1.0, 7.0)


async def run(loops: Loops, num_rounds: int) -> None:
    """Generate and update side by side until `num_rounds` are done; it must not take for ever."""
    with trio.fail_after(10_000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(loops.generate().run)
            await loops.update(rounds_max=num_rounds).run()
            nursery.cancel_scope.cancel()


def with_random_durations(seed: int, *, staleness_max: int, split: bool) -> Loops:
    loops, rng = Loops(staleness_max=staleness_max, split=split), random.Random(seed)
    for child in (loops.generator, loops.learner, loops.scorer):
        child.delays_s = lambda op: rng.choice(DURATIONS_S)
    return loops


@pytest.mark.parametrize("split", [False, True], ids=["shared", "split"])
@pytest.mark.parametrize("staleness_max", [0, 1, 2])
@pytest.mark.parametrize("seed", range(8))
async def test_no_rollout_is_older_than_the_bound(
    autojump_clock: trio.testing.MockClock, seed: int, staleness_max: int, split: bool
) -> None:
    loops = with_random_durations(seed, staleness_max=staleness_max, split=split)
    await run(loops, 30)
    assert max(loops.learner.used_staleness) <= staleness_max
    assert loops.learner.applied_rounds == list(range(1, 31))
    assert max(record["staleness"] for record in loops.records) <= staleness_max


@pytest.mark.parametrize("seed", range(4))
async def test_the_bound_holds_when_batches_and_rounds_fail(
    autojump_clock: trio.testing.MockClock, seed: int
) -> None:
    loops = with_random_durations(seed, staleness_max=1, split=False)
    loops.learner.fail("update", LocalError("no"), ChildDied("gone"), LocalError("no"))
    loops.scorer.fail("score", LocalError("no"), LocalError("no"))
    await run(loops, 20)
    assert max(loops.learner.used_staleness) <= 1


async def test_a_bound_of_one_lets_generation_and_update_overlap(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Loops(staleness_max=1, split=True)
    for child in (loops.generator, loops.learner):
        child.delays_s = lambda op: 1.0 if op in ("generate", "update") else 0.0
    await run(loops, 50)
    assert trio.current_time() < 60
