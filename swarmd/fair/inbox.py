"""The inbox between the network process and ingest: bounded, never waited for when full, and fair.

Messages wait in flows. The flows with quotas of their own and the flows that share one have equal parts of ingest's time. Within
either class every flow has an equal part, and within a flow every author. When there is no room, the longest flow loses its newest
message: a flood drops its own messages and nobody else's.
"""

import math
from collections.abc import Callable

import trio

from swarmd.fair.flow import Flow
from swarmd.fair.queue import FairQueue
from swarmd.fair.turns import Turns

# Messages waiting for the scorer, at most 60 KB each (15 MB).
INBOX_MAX = 256
# The least that a message costs, so that messages which are dropped at once take turns as well.
COST_S_MIN = 1e-4
# Poll interval while unproven senders are held by their quota.
LOOK_S = 0.1


class Inbox:
    """Messages by flow. One reader takes them out by iterating, for ever; a message costs the time until the reader asks again.

    Args:
        held: whether the flows that share a quota have to wait.
    """

    def __init__(self, messages_max: int = INBOX_MAX, held: Callable[[], bool] = lambda: False) -> None:
        self._messages_max, self._held = messages_max, held
        # By whether the flows share. Each class has a clock of its own: else flows that were held would count as served for less.
        self._queues: dict[bool, FairQueue[Flow, bytes, bytes]] = {False: FairQueue(), True: FairQueue()}
        self._turns: Turns[bool] = Turns()
        self._filled = trio.Event()
        self._serving: tuple[Flow, bytes] | None = None
        self._served_since = 0.0

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def offer(self, flow: Flow, author: bytes, message: bytes) -> bool:
        """Put a message in; whether no message had to go for it."""
        queue = self._queues[flow.shares]
        if not len(queue):
            self._turns.begin(flow.shares)
        queue.put(flow, author, message)
        self._filled.set()
        if len(self) <= self._messages_max:
            return True
        longest = [found for queue in self._queues.values() if (found := queue.longest(flow)) is not None]
        loser = max(longest, key=lambda other: (self._queues[other.shares].num_in(other), other == flow))
        self._queues[loser.shares].drop_newest(loser)
        return False

    def __aiter__(self) -> "Inbox":
        return self

    async def __anext__(self) -> bytes:
        """The oldest message of the author in turn in the flow in turn, as soon as a message need not wait."""
        self._charge()
        await trio.lowlevel.checkpoint()
        while not (ready := [shares for shares in self._queues if self._ready(shares)]):
            if self._filled.is_set():
                self._filled = trio.Event()
            with trio.move_on_after(LOOK_S if len(self) else math.inf):
                await self._filled.wait()
        queue = self._queues[self._turns.next(ready)]
        self._serving, self._served_since = queue.next(), trio.current_time()
        message = self._pop()
        assert message is not None
        return message

    def more(self) -> bytes | None:
        """Another message of the author whose message was taken last, from the same flow, in the same turn."""
        return self._pop() if self._serving is not None and self._ready(self._serving[0].shares) else None

    def _ready(self, shares: bool) -> bool:
        return len(self._queues[shares]) > 0 and not (shares and self._held())

    def _pop(self) -> bytes | None:
        assert self._serving is not None
        return self._queues[self._serving[0].shares].pop(*self._serving)

    def _charge(self) -> None:
        """The message handed out last took the reader until now."""
        if self._serving is None:
            return
        cost_s = max(COST_S_MIN, trio.current_time() - self._served_since)
        shares = self._serving[0].shares
        self._turns.charge(shares, cost_s)
        self._queues[shares].charge(*self._serving, cost_s)
        self._serving = None
