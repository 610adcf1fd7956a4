"""Which messages came already: a bounded set of digests that forgets the oldest first."""

from typing import Final

from swarmd.recent import Recent

# Keys, about 220 bytes each. A key is needed for age_s_max + skew_s_max, 660 s by default: 65,536 keys cover 99 messages a second.
# Past that a replay is judged again, and the buffer still refuses its rollouts.
CAPACITY: Final = 65_536


class Seen(Recent[bytes, None]):
    """Not for several threads at once. Bound: `capacity` keys; drops the oldest."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        super().__init__(capacity)

    def add(self, key: bytes) -> None:
        """Remember `key`; a known key keeps its place in the order."""
        self.setdefault(key, None)
