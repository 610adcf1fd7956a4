"""Waiting for neighbours, on a virtual clock: for the slow, not for the frozen."""

from dataclasses import dataclass, field

import trio

from swarmd.swarm.pacing import FROZEN_S, WAIT_RATE, WAIT_S_MAX, Patience


@dataclass
class FakeQueue:
    """Holds bytes that leave at a rate; has room below 100."""

    start_bytes: int
    bytes_per_s: float
    born_at: float = field(default_factory=trio.current_time)

    @property
    def data_bytes(self) -> int:
        return int(self.start_bytes - self.bytes_per_s * (trio.current_time() - self.born_at))

    @property
    def has_room(self) -> bool:
        return self.data_bytes < 100


async def test_empty_queues_cost_no_time(autojump_clock):
    assert await Patience.full(0).wait_for_room(lambda: [FakeQueue(0, 0)])
    assert trio.current_time() == 0


async def test_nobody_is_waited_for_when_alone(autojump_clock):
    assert await Patience.full(0).wait_for_room(list)


async def test_a_slow_neighbour_is_waited_for(autojump_clock):
    slow = FakeQueue(200, 20)
    assert await Patience.full(0).wait_for_room(lambda: [FakeQueue(0, 0), slow])
    assert 5 <= trio.current_time() < 6


async def test_a_frozen_neighbour_is_given_up(autojump_clock):
    frozen = FakeQueue(200, 0)
    assert not await Patience.full(0).wait_for_room(lambda: [frozen])
    assert FROZEN_S <= trio.current_time() < 2 * FROZEN_S


async def test_nobody_is_waited_for_for_ever(autojump_clock):
    slow = FakeQueue(10_000, 20)
    assert not await Patience.full(0).wait_for_room(lambda: [slow])
    assert WAIT_S_MAX <= trio.current_time() < WAIT_S_MAX + 1


async def test_whoever_is_slow_on_purpose_costs_a_tenth_of_the_time(autojump_clock):
    patience, num = Patience.full(0), 0
    while trio.current_time() < 1000:
        drop_by_drop = FakeQueue(10_000, 1)  # shorter every second: alive, by its looks
        assert not await patience.wait_for_room(lambda queue=drop_by_drop: [queue])
        await trio.sleep(1)  # a round
        num += 1
    assert num >= 1000 * (1 - WAIT_RATE) - WAIT_S_MAX - 1


async def test_patience_comes_back(autojump_clock):
    patience = Patience.full(0)
    slow = FakeQueue(1_000_000, 20)
    await patience.wait_for_room(lambda: [slow])
    await trio.sleep(WAIT_S_MAX / WAIT_RATE)
    before = trio.current_time()
    await patience.wait_for_room(lambda: [slow])
    assert trio.current_time() - before >= WAIT_S_MAX - 1
