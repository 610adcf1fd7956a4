"""A process that hangs is given up on by the node's own measure."""

import pytest
import trio
import trio.testing

from swarmd.clients.patience import FIRST_S, LEAST_S, Patience
from swarmd.errors import ChildDied


async def taking(patience: Patience, seconds: float) -> float:
    async def call(within_s: float) -> float:
        await trio.sleep(seconds)
        return within_s

    return await patience.with_it(call)


async def test_a_call_may_take_thirty_times_the_longest(autojump_clock: trio.testing.MockClock) -> None:
    patience = Patience()
    assert await taking(patience, 100) == FIRST_S
    assert await taking(patience, 1) == 3000
    assert await taking(patience, 200) == 3000
    assert patience.bound_s == 6000


async def test_a_quick_call_leaves_time_for_a_checkpoint(autojump_clock: trio.testing.MockClock) -> None:
    patience = Patience()
    await taking(patience, 0.1)
    assert patience.bound_s == LEAST_S


async def test_a_call_that_was_not_answered_teaches_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async def hangs(within_s: float) -> None:
        await trio.sleep(within_s)
        raise ChildDied("no answer")

    patience = Patience()
    with pytest.raises(ChildDied):
        await patience.with_it(hangs)
    assert patience.bound_s == FIRST_S
