"""Progress: who waits for what, and what a stop wakes."""

import pytest
import trio
import trio.testing

from swarmd.experience.pools import LocalPool
from swarmd.loops.progress import Progress
from tests.loops.parts import own_batch


def progress(staleness_max: int = 0) -> Progress:
    return Progress(LocalPool(staleness_max=staleness_max))


async def test_generation_waits_for_the_update(autojump_clock: trio.testing.MockClock) -> None:
    at = progress()
    at.put_own(own_batch())
    await at.take_own()
    with trio.move_on_after(60) as waited:
        await at.room_to_generate()
    assert waited.cancelled_caught
    at.finish_update()
    await at.room_to_generate()


async def test_the_update_waits_for_a_batch(autojump_clock: trio.testing.MockClock) -> None:
    at, taken = progress(), []
    async with trio.open_nursery() as nursery:

        async def take() -> None:
            taken.append(await at.take_own())

        nursery.start_soon(take)
        await trio.testing.wait_all_tasks_blocked()
        assert not taken
        at.put_own(own_batch())
    assert taken == [own_batch()]


async def test_a_stop_wakes_the_update_at_once(autojump_clock: trio.testing.MockClock) -> None:
    at = progress()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(at.take_own)
        await trio.testing.wait_all_tasks_blocked()
        at.request_stop()
    assert trio.current_time() == 0


async def test_after_a_stop_no_batch_is_begun_even_if_one_is_there() -> None:
    at = progress()
    at.put_own(own_batch())
    at.request_stop(evaluate=True)
    assert await at.take_own() is None
    assert at.evaluate_at_stop


@pytest.mark.parametrize("num_waiting", [1, 3])
async def test_a_change_wakes_everybody(num_waiting: int) -> None:
    at = progress()
    at.put_own(own_batch())
    async with trio.open_nursery() as nursery:
        for _ in range(num_waiting):
            nursery.start_soon(at.room_to_generate)
        await trio.testing.wait_all_tasks_blocked()
        await at.take_own()
        at.finish_update()
