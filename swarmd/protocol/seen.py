"""Which messages came already: a bounded set of digests that forgets those whose message is too old to come again."""

from typing import Final

from swarmd.recent import Recent

# Keys, about 250 bytes each. A key is needed for age_s_max + skew_s_max, 660 s by default: 65,536 keys cover 99 messages a second.
# Past that a replay is judged again, and the buffer still refuses its rollouts.
CAPACITY: Final = 65_536


class Seen(Recent[bytes, int]):
    """Keys, each with when it may be forgotten: Unix milliseconds. Not for several threads at once.

    Bound: `capacity` keys, the oldest dropped first; and as many as came while a message may come again.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        super().__init__(capacity)

    def add(self, key: bytes, *, now_ms: int, until_ms: int) -> None:
        """Remember `key` until then; a known key keeps its place in the order. Keys whose time is over are forgotten."""
        self.setdefault(key, until_ms)
        while self and next(iter(self.values())) < now_ms:
            self.popitem(last=False)
