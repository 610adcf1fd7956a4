"""The inbox between the network process and ingest: bounded, never waited for when full, and fair.

Messages wait in lines (`lines`). Every line gets an equal part of ingest's time, and in a line every author. When there is no room,
the longest line loses its newest: a flood drops its own messages and nobody else's.
"""

import math
from collections.abc import Callable

import trio

from swarmd.loops.lines import Line
from swarmd.trust.fair_queue import FairQueue

# Messages waiting for the scorer, at most 60 KB each (15 MB).
INBOX_MAX = 256
# What a message costs at least: those that are dropped at once take turns as well.
COST_S_MIN = 1e-4
# Between looks at lines that have to wait. Half is more looks than a line that may go on again gives work.
LOOK_S = 0.1


class Inbox:
    """Messages by line; one reader iterates over it to take them out, for ever. The time until it asks again is what they cost.

    Args:
        held: whether a line has to wait, although its turn has come.
    """

    def __init__(
        self, messages_max: int = INBOX_MAX, held: Callable[[Line], bool] = lambda line: False
    ) -> None:
        self._messages_max, self._held = messages_max, held
        self._queue: FairQueue[Line, bytes, bytes] = FairQueue()
        self._filled = trio.Event()
        self._serving: tuple[Line, bytes] | None = None
        self._served_since = 0.0

    def __len__(self) -> int:
        return len(self._queue)

    def offer(self, line: Line, author: bytes, message: bytes) -> bool:
        """Put a message in; whether all of them are still there."""
        self._queue.put(line, author, message)
        self._filled.set()
        if len(self._queue) <= self._messages_max:
            return True
        self._queue.drop_newest(self._queue.longest(line))
        return False

    def __aiter__(self) -> "Inbox":
        return self

    async def __anext__(self) -> bytes:
        """The oldest message of the author in turn in the line in turn, as soon as there is one that need not wait."""
        self._charge()
        await trio.lowlevel.checkpoint()
        while (serving := self._queue.next(self._held)) is None:
            if self._filled.is_set():
                self._filled = trio.Event()
            with trio.move_on_after(LOOK_S if len(self._queue) else math.inf):
                await self._filled.wait()
        self._serving, self._served_since = serving, trio.current_time()
        message = self._queue.pop(*serving)
        assert message is not None
        return message

    def more(self) -> bytes | None:
        """Another message of the author whose message was taken last, from the same line, in the same turn."""
        return None if self._serving is None else self._queue.pop(*self._serving)

    def _charge(self) -> None:
        """What was handed out last took the reader until now."""
        if self._serving is not None:
            self._queue.charge(*self._serving, max(COST_S_MIN, trio.current_time() - self._served_since))
            self._serving = None
