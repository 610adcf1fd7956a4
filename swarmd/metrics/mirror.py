"""A child process counts for itself; its running totals become the growth of our counters."""

from collections.abc import Mapping


class CounterMirror:
    """Adds the growth of a child's running totals to a counter, also across the child's restarts."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def growth(self, totals: Mapping[str, float]) -> dict[str, float]:
        """How much each total grew since the last call; a smaller total means that the child began anew."""
        grown = {}
        for name, total in totals.items():
            last = self._last.get(name, 0)
            grown[name] = total - last if total >= last else total
            self._last[name] = total
        return grown
