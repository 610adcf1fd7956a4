"""T19: stock's seen cache owns a thread that is never stopped, has no bound, and renews an entry whenever it is looked at."""

import time
from collections.abc import Callable

from swarmd.recent import Recent

# Ids, about 15 MB at worst: what a swarm of hundreds sends within `seen_ttl`.
IDS_MAX = 100_000


class SeenCache:
    """Message ids with the time of first sight; forgets after `ttl_s`, or the oldest when full. No thread."""

    def __init__(
        self, ttl_s: float, *, ids_max: int = IDS_MAX, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ttl_s, self._clock = ttl_s, clock
        self._expiry_s: Recent[bytes, float] = Recent(ids_max)

    def add(self, key: bytes) -> bool:
        """Remember an id; true if it was new. An id already there keeps its old expiry."""
        self._forget_expired()
        if key in self._expiry_s:
            return False
        self._expiry_s[key] = self._clock() + self._ttl_s
        return True

    def has(self, key: bytes) -> bool:
        """Whether the id was added less than `ttl_s` ago; looking changes nothing."""
        expiry_s = self._expiry_s.get(key)
        return expiry_s is not None and expiry_s > self._clock()

    def length(self) -> int:
        """Number of ids held, expired ones not yet swept included."""
        return len(self._expiry_s)

    def stop(self) -> None:
        """Nothing to stop; py-libp2p's interface asks for it."""

    def _forget_expired(self) -> None:
        now_s = self._clock()
        while self._expiry_s:
            key, expiry_s = next(iter(self._expiry_s.items()))
            if expiry_s > now_s:
                return
            del self._expiry_s[key]
