"""A queue that gives every flow an equal part of its server's time, and within a flow every name."""

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from swarmd.fair.turns import Turns

Flow = TypeVar("Flow", bound=Hashable)
Name = TypeVar("Name", bound=Hashable)
Item = TypeVar("Item")


class FairQueue(Generic[Flow, Name, Item]):
    """Items by flow and name, of one name in the order in which they came.

    The server asks `next` whose turn it is, takes items with `pop`, and says with `charge` how long they took.
    """

    def __init__(self) -> None:
        self._flows: dict[Flow, _Waiting[Name, Item]] = {}
        self._turns: Turns[Flow] = Turns()
        self._num = 0

    def __len__(self) -> int:
        return self._num

    def put(self, flow: Flow, name: Name, item: Item) -> None:
        """Last of its name."""
        if flow not in self._flows:
            self._flows[flow] = _Waiting()
            self._turns.begin(flow)
        self._flows[flow].put(name, item)
        self._num += 1

    def next(self) -> tuple[Flow, Name] | None:
        """Whose turn it is; None when nobody waits."""
        if not self._flows:
            return None
        flow = self._turns.next(self._flows)
        return flow, self._flows[flow].next()

    def pop(self, flow: Flow, name: Name) -> Item | None:
        """The oldest item of a name in a flow, if an item waits."""
        waiting = self._flows.get(flow)
        if waiting is None or name not in waiting.by_name:
            return None
        item = waiting.pop(name)
        self._left(flow)
        return item

    def num_in(self, flow: Flow) -> int:
        return len(self._flows.get(flow, ()))

    def longest(self, asks: Flow) -> Flow | None:
        """The longest flow, if any waits; of flows equally long it is `asks`, which wants room."""
        return max(self._flows, key=lambda other: (len(self._flows[other]), other == asks), default=None)

    def drop_newest(self, flow: Flow) -> Item:
        """Take the newest item of the name that has most in a flow."""
        item = self._flows[flow].drop_newest()
        self._left(flow)
        return item

    def charge(self, flow: Flow, name: Name, served_s: float) -> None:
        """Serving what was popped of a name took so long."""
        self._turns.charge(flow, served_s)
        if waiting := self._flows.get(flow):
            waiting.turns.charge(name, served_s)

    def _left(self, flow: Flow) -> None:
        self._num -= 1
        if not len(self._flows[flow]):
            del self._flows[flow]


class _Waiting(Generic[Name, Item]):
    """One flow."""

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
