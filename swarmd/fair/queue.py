"""A queue that gives every line an equal part of its server's time, and in a line every name."""

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from swarmd.fair.turns import Turns

Line = TypeVar("Line", bound=Hashable)
Name = TypeVar("Name", bound=Hashable)
Item = TypeVar("Item")


class FairQueue(Generic[Line, Name, Item]):
    """Items by line and name, of one name in the order in which they came.

    The server asks `next` whose turn it is, takes items with `pop`, and says with `charge` how long they took.
    """

    def __init__(self) -> None:
        self._lines: dict[Line, _Waiting[Name, Item]] = {}
        self._turns: Turns[Line] = Turns()
        self._num = 0

    def __len__(self) -> int:
        return self._num

    def put(self, line: Line, name: Name, item: Item) -> None:
        """Last of its name."""
        if line not in self._lines:
            self._lines[line] = _Waiting()
            self._turns.begin(line)
        self._lines[line].put(name, item)
        self._num += 1

    def next(self) -> tuple[Line, Name] | None:
        """Whose turn it is; None when nobody waits."""
        if not self._lines:
            return None
        line = self._turns.next(self._lines)
        return line, self._lines[line].next()

    def pop(self, line: Line, name: Name) -> Item | None:
        """The oldest item of a name in a line, if one waits."""
        waiting = self._lines.get(line)
        if waiting is None or name not in waiting.by_name:
            return None
        item = waiting.pop(name)
        self._left(line)
        return item

    def num_in(self, line: Line) -> int:
        """How many items wait in a line."""
        return len(self._lines.get(line, ()))

    def longest(self, asks: Line) -> Line | None:
        """The longest line, if there is one; of lines equally long it is `asks`, which wants room."""
        return max(self._lines, key=lambda other: (len(self._lines[other]), other == asks), default=None)

    def drop_newest(self, line: Line) -> Item:
        """Take the newest item of the name with most in a line."""
        item = self._lines[line].drop_newest()
        self._left(line)
        return item

    def charge(self, line: Line, name: Name, served_s: float) -> None:
        """Serving what was popped of a name took so long."""
        self._turns.charge(line, served_s)
        if waiting := self._lines.get(line):
            waiting.turns.charge(name, served_s)

    def _left(self, line: Line) -> None:
        """An item left this line."""
        self._num -= 1
        if not len(self._lines[line]):
            del self._lines[line]


class _Waiting(Generic[Name, Item]):
    """One line."""

    def __init__(self) -> None:
        self.by_name: dict[Name, deque[Item]] = {}
        self.turns: Turns[Name] = Turns()
        self._num = 0

    def __len__(self) -> int:
        return self._num

    def put(self, name: Name, item: Item) -> None:
        if name not in self.by_name:
            self.by_name[name] = deque()
            self.turns.begin(name)
        self.by_name[name].append(item)
        self._num += 1

    def next(self) -> Name:
        return self.turns.next(self.by_name)

    def pop(self, name: Name) -> Item:
        item = self.by_name[name].popleft()
        self._left(name)
        return item

    def drop_newest(self) -> Item:
        """Of the name with most; of equals the one that came last."""
        name = max(reversed(self.by_name), key=lambda other: len(self.by_name[other]))
        item = self.by_name[name].pop()
        self._left(name)
        return item

    def _left(self, name: Name) -> None:
        self._num -= 1
        if not self.by_name[name]:
            del self.by_name[name]
