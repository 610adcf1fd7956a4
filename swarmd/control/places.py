"""Places for connections: a fixed number, a deadline for each, and who leaves when another needs one."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import trio


class Place:
    """One connection's. Its task runs within `scope`."""

    def __init__(self, patience_s: float) -> None:
        self.scope = trio.CancelScope(deadline=trio.current_time() + patience_s)
        self.is_evicted = False
        self.is_in_hand = False

    @contextmanager
    def in_hand(self) -> Iterator[None]:
        """While we work for the client: neither the deadline nor another client interrupts that."""
        left_s = self.scope.deadline - trio.current_time()
        self.scope.deadline, self.is_in_hand = math.inf, True
        try:
            yield
        finally:
            self.scope.deadline, self.is_in_hand = trio.current_time() + left_s, False

    def evict(self) -> None:
        """End the connection at the next turn of the loop."""
        self.is_evicted = True
        self.scope.cancel()


class Places:
    """At most `num_max` places. A connection has one request, so the first connection has waited longest for its client."""

    def __init__(self, num_max: int, patience_s: float) -> None:
        self._num_max, self._patience_s = num_max, patience_s
        self._taken: dict[Place, None] = {}  # in order of arrival

    def take(self) -> Place | None:
        """A free place, or the place of the connection that waited longest. None while the node works for every connection."""
        if len(self._taken) >= self._num_max and not self.make_room():
            return None
        place = Place(self._patience_s)
        self._taken[place] = None
        return place

    def make_room(self) -> bool:
        """Evict the connection that waited longest, if any waits for its client."""
        oldest = next((place for place in self._taken if not place.is_in_hand), None)
        if oldest is None:
            return False
        oldest.evict()
        del self._taken[oldest]
        return True

    def clear(self) -> None:
        """Evict every connection that waits for its client."""
        while self.make_room():
            pass

    def leave(self, place: Place) -> None:
        self._taken.pop(place, None)
