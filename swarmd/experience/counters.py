"""The node's question counter: every number is given out once, whatever dies in between.

The counter lives in a file of its own, because a damaged buffer may be moved aside. A counter that began anew would ask questions
that the swarm has seen, and every other node would drop the rollouts as duplicates.
"""

import sqlite3
from pathlib import Path

from swarmd.errors import StateError
from swarmd.experience.store import Store
from swarmd.protocol.types import INTEGER_MAX

_SCHEMA = "CREATE TABLE facts(name TEXT PRIMARY KEY, value INTEGER NOT NULL); INSERT INTO facts VALUES('next_counter', 0)"


class QuestionCounter:
    """A durable counter from 0, which a node and `swarmd contribute` beside it may share. The owner closes it.

    Raises:
        StateError: the file is damaged, not accessible, or of a newer version.
    """

    def __init__(self, path: Path) -> None:
        self._store = Store(path, schema=_SCHEMA, synchronous="FULL", expendable=False)

    def reserve(self, num: int) -> int:
        """The first of `num` consecutive counters, on disk as used before this returns.

        Raises:
            ValueError: `num` below 1.
            DiskFull: no space; nothing was given out.
            StateError: the file holds no counter.
        """
        if num < 1:
            raise ValueError(f"at least one counter must be reserved, got {num}")

        def work(db: sqlite3.Connection) -> int:
            query = "UPDATE facts SET value = value + ? WHERE name = 'next_counter' RETURNING value"
            rows = db.execute(query, (num,)).fetchall()
            first = rows[0][0] - num if rows and type(rows[0][0]) is int else -1
            if not 0 <= first <= INTEGER_MAX - num:
                raise StateError(
                    f"{self._store.path} is damaged",
                    f"its next counter is {rows!r:.60}",
                    "restore your copy of it",
                )
            return int(first)

        return self._store.transaction(work)

    def close(self) -> None:
        self._store.close()
