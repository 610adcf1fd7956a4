"""Which messages came already: a bounded set of digests that forgets the oldest first."""

from typing import Final

# About 150 bytes an entry. A key is needed for age_s_max + skew_s_max, 660 s by default: 65,536 of them cover 99 messages
# a second. Half of it costs re-judging replays in a flood, and the buffer still refuses the rollouts; double costs 10 MB more.
CAPACITY: Final = 65_536


class Seen:
    """Not for several threads at once. Bound: `capacity` keys; drops the oldest."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        if capacity < 1:
            raise ValueError("capacity must be at least 1")
        self._capacity = capacity
        self._keys: dict[bytes, None] = {}  # a dict keeps the order of insertion

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: bytes) -> bool:
        return key in self._keys

    def add(self, key: bytes) -> None:
        """Remember `key`; a known one keeps its place in the order."""
        if key in self._keys:
            return
        while len(self._keys) >= self._capacity:
            del self._keys[next(iter(self._keys))]
        self._keys[key] = None

    def check_and_add(self, key: bytes) -> bool:
        """Remember `key`; True when it was new."""
        if key in self._keys:
            return False
        self.add(key)
        return True
