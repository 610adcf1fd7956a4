"""Back-pressure for our own messages: publish no faster than the slowest living neighbour takes them.

Its outbound queue drops what does not fit. Pubsub itself waits only while most of a mesh is busy, so that one frozen peer cannot
silence a node; here every busy queue is waited for as long as it drains, which tells the slow from the frozen.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

import trio

LOOK_S = 0.05
# A queue that did not get shorter for so long belongs to a frozen peer. Half mistakes a busy machine for one; double lets one
# frozen neighbour delay each message for longer.
FROZEN_S = 2.0
# The daemon gives one publish 30 s.
WAIT_S_MAX = 15.0


class Queue(Protocol):
    """What is waiting for one peer."""

    data_bytes: int

    @property
    def has_room(self) -> bool: ...


async def wait_for_room(queues: Callable[[], Iterable[Queue]]) -> bool:
    """Returns once every queue has room, is frozen, or 15 s are over; true when that was because all have room."""
    shortest: dict[int, tuple[int, float]] = {}  # by identity of the queue: bytes, and when it got so short
    end = trio.current_time() + WAIT_S_MAX
    while True:
        now = trio.current_time()
        busy = [queue for queue in queues() if not queue.has_room]
        for queue in busy:
            size, since = shortest.get(id(queue), (queue.data_bytes + 1, now))
            shortest[id(queue)] = (queue.data_bytes, now) if queue.data_bytes < size else (size, since)
        draining = [queue for queue in busy if now - shortest[id(queue)][1] < FROZEN_S]
        if not draining or now >= end:
            return not busy
        await trio.sleep(LOOK_S)
