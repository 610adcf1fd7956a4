"""Turns: whose turn it is, so that everybody who waits gets an equal part of the server's time.

Start-time fair queuing (Goyal, Vin and Cheng, SIGCOMM 1996): the name that was served for the least time is next. A message costs
between a millisecond and a second. By number, a sender of dear messages would have nearly all of the time.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from swarmd.recent import Recent

Name = TypeVar("Name", bound=Hashable)

# Names remembered, 200 bytes each. A name that is forgotten starts like a new one.
NAMES_MAX = 4096


class Turns(Generic[Name]):
    """Served time by name, in seconds."""

    def __init__(self, names_max: int = NAMES_MAX) -> None:
        self._served_s: Recent[Name, float] = Recent(names_max)
        # The served time of the name served last. A newcomer starts from here, so nobody saves up time by being away.
        self._floor_s = 0.0

    def begin(self, name: Name) -> None:
        """Something waits of a name that had nothing waiting."""
        self._served_s[name] = max(self._of(name), self._floor_s)

    def next(self, waiting: Iterable[Name]) -> Name:
        """The name that is served now; of equals the first.

        Raises:
            ValueError: nobody waits.
        """
        name = min(waiting, key=self._of)
        self._floor_s = max(self._floor_s, self._of(name))
        return name

    def charge(self, name: Name, served_s: float) -> None:
        self._served_s[name] = self._of(name) + served_s

    def _of(self, name: Name) -> float:
        return self._served_s.get(name, self._floor_s)
