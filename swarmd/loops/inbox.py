"""The inbox between the network process and ingest: bounded, never waited for when full, and fair.

Messages wait in lines (`lines`). Every line gets an equal part of ingest's time, and in a line every author.

When there is no room, the longest line loses its newest: a flood drops its own messages and nobody else's.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from swarmd.loops.lines import Line
from swarmd.loops.turns import Turns

# Messages waiting for the scorer, at most 60 KB each (15 MB).
INBOX_MAX = 256
# What a message costs at least: those that are dropped at once take turns as well.
COST_S_MIN = 1e-4
# Between looks at lines that have to wait. Half is more looks than a line that may go on again gives work.
LOOK_S = 0.1


@dataclass
class _Waiting:
    """One line: messages by author."""

    by_author: dict[bytes, deque[bytes]] = field(default_factory=dict)
    turns: Turns[bytes] = field(default_factory=Turns)

    def __len__(self) -> int:
        return sum(map(len, self.by_author.values()))

    def put(self, author: bytes, message: bytes) -> None:
        if author not in self.by_author:
            self.by_author[author] = deque()
            self.turns.begin(author)
        self.by_author[author].append(message)

    def next(self) -> bytes:
        """The author in turn."""
        return self.turns.next(self.by_author)

    def pop(self, author: bytes) -> bytes:
        """Its oldest message."""
        message = self.by_author[author].popleft()
        self._tidy(author)
        return message

    def drop_newest(self) -> None:
        """Of the author with most; of equals the last that came."""
        author = max(reversed(self.by_author), key=lambda name: len(self.by_author[name]))
        self.by_author[author].pop()
        self._tidy(author)

    def _tidy(self, author: bytes) -> None:
        if not self.by_author[author]:
            del self.by_author[author]


class Inbox:
    """Messages by line; one reader iterates over it to take them out, for ever. The time until it asks again is what they cost.

    Args:
        held: whether a line has to wait, although its turn has come.
    """

    def __init__(
        self, messages_max: int = INBOX_MAX, held: Callable[[Line], bool] = lambda line: False
    ) -> None:
        self._messages_max, self._held = messages_max, held
        self._lines: dict[Line, _Waiting] = {}
        self._turns: Turns[Line] = Turns()
        self._num = 0
        self._filled = trio.Event()
        self._serving: tuple[Line, bytes, float] | None = None

    def __len__(self) -> int:
        return self._num

    def offer(self, line: Line, author: bytes, message: bytes) -> bool:
        """Put a message in; whether all of them are still there."""
        if line not in self._lines:
            self._lines[line] = _Waiting()
            self._turns.begin(line)
        self._lines[line].put(author, message)
        self._num += 1
        self._filled.set()
        if self._num <= self._messages_max:
            return True
        # of lines equally long, the one that asked for more room gives it
        loser = max(self._lines, key=lambda name: (len(self._lines[name]), name == line))
        self._lines[loser].drop_newest()
        self._tidy(loser)
        return False

    def __aiter__(self) -> "Inbox":
        return self

    async def __anext__(self) -> bytes:
        """The oldest message of the author in turn in the line in turn, as soon as there is one that need not wait."""
        self._charge()
        await trio.lowlevel.checkpoint()
        while not (ready := [line for line in self._lines if not self._held(line)]):
            if self._filled.is_set():
                self._filled = trio.Event()
            with trio.move_on_after(LOOK_S if self._num else float("inf")):
                await self._filled.wait()
        line = self._turns.next(ready)
        author = self._lines[line].next()
        self._serving = (line, author, trio.current_time())
        return self._pop(line, author)

    def more(self) -> bytes | None:
        """Another message of the author whose message was taken last, from the same line, in the same turn."""
        if self._serving is None:
            return None
        line, author, _ = self._serving
        waits = line in self._lines and author in self._lines[line].by_author
        return self._pop(line, author) if waits else None

    def _pop(self, line: Line, author: bytes) -> bytes:
        message = self._lines[line].pop(author)
        self._tidy(line)
        return message

    def _tidy(self, line: Line) -> None:
        """After a message left this line."""
        self._num -= 1
        if not len(self._lines[line]):
            del self._lines[line]

    def _charge(self) -> None:
        """What was handed out last took the reader until now."""
        if self._serving is None:
            return
        line, author, since = self._serving
        self._serving = None
        cost_s = max(COST_S_MIN, trio.current_time() - since)
        self._turns.charge(line, cost_s)
        if waiting := self._lines.get(line):
            waiting.turns.charge(author, cost_s)
