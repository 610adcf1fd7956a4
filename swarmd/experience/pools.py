"""The node's own rollouts between generation and update: a round's whole, in order, lost with the process.

The pool says when the next generation may begin. An entry is used after the entries ahead of it, so their number is the number of
updates between its generation and its use. Entries that are still being scored count.
"""

from collections import deque

from swarmd.experience.own import OwnExperience


class LocalPool:
    """Own experience, one entry a round, first in first out.

    Args:
        staleness_max: most updates between the generation of an entry and its use. At most one entry more than this is held.

    `num_to_come` entries were generated, and are not put yet.
    """

    def __init__(self, *, staleness_max: int) -> None:
        if staleness_max < 0:
            raise ValueError(f"staleness_max must be at least 0, got {staleness_max}")
        self._staleness_max = staleness_max
        self._entries: deque[OwnExperience] = deque()
        self._in_use = False
        self.num_to_come = 0

    def __len__(self) -> int:
        """Entries that wait for their update."""
        return len(self._entries)

    @property
    def has_room(self) -> bool:
        """Whether a generation begun now would be at most `staleness_max` updates old at its use."""
        return self.num_to_come + len(self._entries) + self._in_use <= self._staleness_max

    def put(self, own: OwnExperience) -> None:
        """Add the entry for which there was room when its generation began."""
        self._entries.append(own)

    def take(self) -> OwnExperience:
        """The oldest entry. It still counts as lying ahead of others until `finish`. Raises IndexError when there is none."""
        own = self._entries.popleft()
        self._in_use = True
        return own

    def finish(self) -> None:
        """The update on the entry taken last is over, whatever came of it."""
        self._in_use = False
