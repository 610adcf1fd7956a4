"""The node's own rollouts between generation and update: a round's whole, in order, lost with the process.

The pool says when the next batch may be begun. A batch is used after the batches ahead of it, so their number is the number of
updates between its generation and its use.
"""

from collections import deque

from swarmd.experience.own import OwnExperience


class LocalPool:
    """Own experience, one batch a round, first in first out.

    Args:
        staleness_max: most updates between the generation of a batch and its use. At most one batch more than this is held.
    """

    def __init__(self, *, staleness_max: int) -> None:
        if staleness_max < 0:
            raise ValueError(f"staleness_max must be at least 0, got {staleness_max}")
        self._staleness_max = staleness_max
        self._batches: deque[OwnExperience] = deque()
        self._in_use = False

    def __len__(self) -> int:
        """Batches that wait for their update."""
        return len(self._batches)

    @property
    def has_room(self) -> bool:
        """Whether a batch begun now would be at most `staleness_max` updates old at its use."""
        return len(self._batches) + self._in_use <= self._staleness_max

    def put(self, own: OwnExperience) -> None:
        """Add the batch for which there was room when it was begun."""
        self._batches.append(own)

    def take(self) -> OwnExperience:
        """The oldest batch. It still counts as lying ahead of others until `finish`. Raises IndexError when there is none."""
        batch = self._batches.popleft()
        self._in_use = True
        return batch

    def finish(self) -> None:
        """The update on the batch taken last is over, whatever came of it."""
        self._in_use = False
