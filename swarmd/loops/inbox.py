"""The inbox between the network process and ingest: bounded, never waited for when full, and fair between authors.

Each group (a proven author; all the unproven together) has its own line, and the lines are served in turn. When there is no room,
whoever has most waiting loses its newest: a flood drops its own messages and nobody else's.
"""

from collections import OrderedDict, deque

import trio

# Messages waiting for the scorer, at most 60 KB each (15 MB).
INBOX_MAX = 256


class Inbox:
    """Messages by group; iterate over it to take them out, for ever."""

    def __init__(self, messages_max: int = INBOX_MAX) -> None:
        self._messages_max = messages_max
        self._lines: OrderedDict[bytes, deque[bytes]] = OrderedDict()
        self._num = 0
        self._filled = trio.Event()

    def __len__(self) -> int:
        return self._num

    def offer(self, group: bytes, message: bytes) -> bool:
        """Put a message in; whether all of them are still there."""
        self._lines.setdefault(group, deque()).append(message)
        self._num += 1
        self._filled.set()
        if self._num <= self._messages_max:
            return True
        longest = max(len(line) for line in self._lines.values())
        # of lines equally long, the one that asked for more room gives it
        loser = (
            group
            if len(self._lines[group]) == longest
            else next(name for name, line in self._lines.items() if len(line) == longest)
        )
        self._lines[loser].pop()
        self._num -= 1
        if not self._lines[loser]:
            del self._lines[loser]
        return False

    def __aiter__(self) -> "Inbox":
        return self

    async def __anext__(self) -> bytes:
        """The oldest message of the next group in turn, as soon as there is one."""
        await trio.lowlevel.checkpoint()
        while not self._num:
            if self._filled.is_set():
                self._filled = trio.Event()
            await self._filled.wait()
        group, line = self._lines.popitem(last=False)
        message = line.popleft()
        self._num -= 1
        if line:
            self._lines[group] = line
        return message
