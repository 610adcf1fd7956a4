"""Counters with a closed set of names: every name exists from the start, and a misspelt one is an error, not a new series."""

from collections import Counter
from collections.abc import Iterable
from types import TracebackType
from typing import Literal


class Counters(Counter[str]):
    """A `collections.Counter` that starts with every name at zero and refuses any other."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(dict.fromkeys(names, 0))

    def count(self, name: str, num: int = 1) -> None:
        """Add to one counter.

        Raises:
            KeyError: the name is not in the closed set (our own bug).
        """
        if name not in self:
            raise KeyError(name)
        self[name] += num


class contained:
    """Swallow and count any error of the block, so that one peer's bytes or one bug cannot end the host.

    py-libp2p runs stream handlers, pubsub tasks and the heartbeat in nurseries whose failure takes the network down (trap T2). This
    is the one place that catches everything; cancellation and exits are not `Exception` and pass through.
    """

    def __init__(self, counters: Counters, name: str) -> None:
        self.counters, self.name, self.failed = counters, name, False

    def __enter__(self) -> "contained":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | Literal[False]:
        if not isinstance(error, Exception):
            return False
        self.counters.count(self.name)
        self.failed = True
        return True
