"""The node's question counter: every number is given out once, whatever dies in between, and whatever became of the file.

The counter lives in a file of its own, because a damaged buffer may be moved aside. A counter that went back would ask questions
that the swarm has seen, and every other node would drop the rollouts as duplicates. Nothing in a file can show that it is an old
copy. So the file says when it was written, and whoever opens it skips the numbers that a node could have given out since.
"""

import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from swarmd.experience.store import Store
from swarmd.protocol.types import INTEGER_MAX

_SCHEMA = "CREATE TABLE facts(name TEXT PRIMARY KEY, value INTEGER NOT NULL); INSERT INTO facts VALUES('next_counter', 0)"

# No node asks so many questions a second. At this rate the numbers last for 285,000 years.
PER_SECOND_MAX = 1000
# Where nothing else is known, all numbers below those of the clock count as given out: 2025-01-01 stands for 0.
CLOCK_BEGAN_MS = 1_735_689_600_000


class _Stored(NamedTuple):
    """What the file holds: the number, and when it was written; None where that is unknown."""

    number: int
    written_ms: int | None


class QuestionCounter:
    """A durable counter from 0, which a node and `swarmd contribute` beside it may share. The owner closes it.

    Args:
        path: the file. A damaged one is moved aside.
        used: numbers below this one were given out, as another witness says: the newest checkpoint. None for a new identity, of
            which no number ever was.
        now_ms: Unix time.

    Attributes:
        next_counter: the first number not given out, as far as this object knows.
        note: what an operator should know of the file; empty where it was as expected.

    Raises:
        StateError: the file is not accessible, or of a newer version.
    """

    def __init__(self, path: Path, *, used: int | None, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._store = Store(path, schema=_SCHEMA, synchronous="FULL", expendable=True)
        self.next_counter, self.note = 0, ""
        self._store.transaction(lambda db: self._begin(db, used))
        if self._store.moved_aside:
            self.note = f"{path} was damaged and lies in {self._store.moved_aside[-1]}; {self.note or 'it begins anew'}"

    def reserve(self, num: int) -> int:
        """The first of `num` consecutive counters, on disk as used before this returns.

        Raises:
            ValueError: `num` below 1.
            DiskFull: no space; nothing was given out.
            StateError: the file cannot be used.
        """
        if num < 1:
            raise ValueError(f"at least one counter must be reserved, got {num}")

        def work(db: sqlite3.Connection) -> int:
            stored = _read(db)
            # Another process may have given out more. A file that was damaged or replaced meanwhile does not count.
            first = max(stored.number if stored.written_ms is not None else 0, self.next_counter)
            _write(db, _Stored(first + num, self._now_ms()))
            return first

        first = self._store.transaction(work)
        self.next_counter = first + num
        return first

    def close(self) -> None:
        self._store.close()

    def _begin(self, db: sqlite3.Connection, used: int | None) -> None:
        """Skip what may have been given out since the file was written, and say what is not as it should be."""
        stored, now_ms, note = _read(db), self._now_ms(), ""
        first = stored.number
        if stored.written_ms is not None and stored.number:  # with 0, nothing was ever asked
            first += PER_SECOND_MAX * max(0, now_ms - stored.written_ms) // 1000
        if used is not None and (stored.written_ms is None or first < used):
            clock = PER_SECOND_MAX * max(0, now_ms - CLOCK_BEGAN_MS) // 1000
            known = f"{stored.number}, and the newest checkpoint {used}" if first < used else "nothing of it"
            first = max(first, used, clock)
            note = f"the question counter's file says {known}: it goes on from {first}"
        if first > INTEGER_MAX // 2:  # no clock leads there
            first, note = max(used or 0, stored.number), "the clock is far off, and was not asked"
        _write(db, _Stored(first, now_ms))
        self.next_counter, self.note = first, note


def _read(db: sqlite3.Connection) -> _Stored:
    """What the file holds. A number without a time, or with another check, is taken for nothing known."""
    facts = dict(db.execute("SELECT name, value FROM facts").fetchall())
    number, written_ms, check = (facts.get(name) for name in ("next_counter", "written_ms", "check"))
    if type(number) is int and 0 <= number <= INTEGER_MAX // 2:
        if type(written_ms) is int and check == _check(number, written_ms):
            return _Stored(number, written_ms)
        return _Stored(number, None)
    return _Stored(0, None)


def _write(db: sqlite3.Connection, stored: _Stored) -> None:
    assert stored.written_ms is not None
    facts = {
        "next_counter": stored.number,
        "written_ms": stored.written_ms,
        "check": _check(stored.number, stored.written_ms),
    }
    db.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())


def _check(number: int, written_ms: int) -> int:
    return zlib.crc32(f"{number} {written_ms}".encode())
