"""A dictionary that forgets the oldest: whatever a stranger can add to is bounded by one."""

from collections import OrderedDict
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(OrderedDict[Key, Value]):
    """At most `entries_max` entries, the oldest first; setting an entry past that forgets the oldest.

    `table[key] = value` makes the key the newest, also a known one: a table that is set at every use forgets the longest unused.
    `table.setdefault(key, value)` leaves a known key its value and its place: such a table forgets whatever came first.
    """

    def __init__(self, entries_max: int) -> None:
        if entries_max < 1:
            raise ValueError("a table must hold an entry at least")
        super().__init__()
        self.entries_max = entries_max

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self.entries_max:
            self.popitem(last=False)
