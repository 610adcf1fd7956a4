"""How long a worker holds its place: the time since its fork, less the time for which it waited for a core.

Our scorers compute and never sleep. A worker that sleeps costs no CPU time, yet the next call waits for it. An author therefore
pays for the time held, and a worker that holds its place too long is killed. An honest worker waits for a core on a busy machine.
Linux tells for how long, and that time is not counted.
"""

import contextlib
import os
import time

# Poll interval while a worker writes nothing. A look costs 30 us.
LOOK_S = 0.05
# Where the system does not tell how long a process waited for a core, an honest worker may hold its place this many times as long:
# two cores with sixteen busy processes.
UNTOLD = 8.0


class Hold:
    """The hold of one worker, from now on. It is over at `ends` (`time.monotonic()`), or after `held_s_max` seconds of it."""

    def __init__(self, pid: int, ends: float, held_s_max: float) -> None:
        self._worker, self._ends = f"/proc/{pid}/schedstat", ends
        self._began = time.monotonic()
        self._look_at = self._began + LOOK_S
        self._waited_s = self._waiting_s()
        told = os.path.exists("/proc/thread-self/schedstat")
        self._held_s_max = held_s_max if told else held_s_max * UNTOLD

    def held_s(self) -> float:
        """Seconds held so far, at least those computed. A process that is gone, or unknown to the system, counts as never waiting.

        Worker and reader can wait at once, for each other's core among others: the sum of both may be more than has passed.
        """
        waited_s = self._waiting_s() - self._waited_s
        return max(0.0, time.monotonic() - self._began - waited_s, _schedstat(self._worker)[0])

    def until(self) -> float:
        """Until when to wait for the worker's next words.

        Raises:
            TimeoutError: the hold is over.
        """
        now = time.monotonic()
        if now >= self._ends:
            raise TimeoutError
        if now >= self._look_at:
            if self.held_s() > self._held_s_max:
                raise TimeoutError
            self._look_at = now + LOOK_S
        return min(self._ends, self._look_at)

    def _waiting_s(self) -> float:
        """Seconds for which the worker, or this thread that reads what it writes, was ready and had no core."""
        return _schedstat(self._worker)[1] + _schedstat("/proc/thread-self/schedstat")[1]


def _schedstat(path: str) -> tuple[float, float]:
    """Seconds computed, and seconds waited for a core."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(path) as file:
        computed, waited = file.read().split()[:2]
        return int(computed) / 1e9, int(waited) / 1e9
    return 0.0, 0.0
