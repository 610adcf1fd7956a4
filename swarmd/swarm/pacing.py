"""Back-pressure for our own messages: publish no faster than the slowest living neighbour takes them.

A neighbour's outbound queue drops what does not fit. A burst therefore waits for every busy queue while it drains; a queue that
does not drain belongs to a frozen neighbour. But anybody can be a neighbour, and slow on purpose. All waiting therefore comes out
of one purse, which fills by a tenth of the time. A neighbour that stops reading, or reads drop by drop, slows a publisher by no
more.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import trio

from swarmd.fair.bucket import Bucket

LOOK_S = 0.05
# Seconds after which a queue that did not get shorter belongs to a frozen peer.
FROZEN_S = 2.0
# Seconds of the longest wait, out of a full purse: half a full queue drains in it at 1 Mbit/s. The daemon gives one publish 30 s.
WAIT_S_MAX = 15.0
# Seconds that the purse gains a second.
WAIT_RATE = 0.1


class Queue(Protocol):
    """The bytes that wait for one peer."""

    data_bytes: int

    @property
    def has_room(self) -> bool: ...


@dataclass
class Patience:
    """The purse of one publisher, in seconds."""

    purse: Bucket

    @classmethod
    def full(cls, now: float) -> "Patience":
        return cls(Bucket.full(WAIT_RATE, WAIT_S_MAX * (1 - WAIT_RATE), now))

    async def wait_for_room(self, queues: Callable[[], Iterable[Queue]]) -> bool:
        """Returns once every queue has room or is frozen, or the purse is empty; true when that was because all have room."""
        # by identity of the queue: bytes, and when it got so short
        shortest: dict[int, tuple[int, float]] = {}
        before = trio.current_time()
        while True:
            now = trio.current_time()
            # Charge the time by the clock: on a loop that is kept busy a look takes a second.
            self.purse.charge(now - before, now)
            before = now
            busy = [queue for queue in queues() if not queue.has_room]
            for queue in busy:
                size, since = shortest.get(id(queue), (queue.data_bytes + 1, now))
                shortest[id(queue)] = (queue.data_bytes, now) if queue.data_bytes < size else (size, since)
            draining = [queue for queue in busy if now - shortest[id(queue)][1] < FROZEN_S]
            if not draining or not self.purse.holds(1e-6, now):
                return not busy
            await trio.sleep(LOOK_S)
