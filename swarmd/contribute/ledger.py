"""What was asked by hand and what became of it, on disk before a question is shown and before an answer leaves.

A question is open, then leaving, then sent. While it is leaving its answers may be out, since a process can die at any moment. Only
the same answers can then leave again: receivers keep what came first, and other answers to the question would contradict it.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from swarmd.errors import LocalError
from swarmd.experience.store import Store

# Two commands may open a new file at the same moment: each statement has to bear being run twice.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS questions(
    author BLOB NOT NULL, counter INTEGER NOT NULL, swarm BLOB NOT NULL, dataset INTEGER NOT NULL,
    state INTEGER NOT NULL, answers BLOB, PRIMARY KEY(author, counter)) WITHOUT ROWID
"""


class State(IntEnum):
    """How far a question came."""

    OPEN = 0
    LEAVING = 1
    SENT = 2


@dataclass(frozen=True, slots=True)
class Asked:
    """One question that was asked: its dataset's number in the manifest `swarm` (digest), and the digest of answers that left."""

    swarm: bytes
    dataset: int
    state: State
    answers: bytes | None


class Ledger:
    """The questions asked under one author's key. Safe for several processes at once; the owner closes it.

    Raises:
        StateError: the file is damaged, not accessible, or of a newer version. DiskFull: no space for it.
    """

    def __init__(self, path: Path, author: bytes) -> None:
        self._author = author
        self._store = Store(path, schema=_SCHEMA, synchronous="FULL", expendable=False)

    def ask(self, swarm: bytes, addresses: Iterable[tuple[int, int]]) -> None:
        """Remember (dataset, counter) pairs as asked. Raises DiskFull: none of them was."""
        rows = [(self._author, counter, swarm, dataset, State.OPEN, None) for dataset, counter in addresses]

        def work(db: sqlite3.Connection) -> None:
            db.executemany("INSERT INTO questions VALUES (?, ?, ?, ?, ?, ?)", rows)

        self._store.transaction(work)

    def find(self, counters: Iterable[int]) -> dict[int, Asked]:
        """Those of the counters that were asked."""
        wanted = list(counters)

        def work(db: sqlite3.Connection) -> dict[int, Asked]:
            query = "SELECT swarm, dataset, state, answers FROM questions WHERE author = ? AND counter = ?"
            found = {}
            for counter in wanted:
                if row := db.execute(query, (self._author, counter)).fetchone():
                    found[counter] = Asked(row[0], row[1], State(row[2]), row[3])
            return found

        return self._store.transaction(work)

    def begin(self, answers: Mapping[int, bytes]) -> list[int]:
        """These answers, by counter their digest, are about to leave.

        Returns:
            the counters that were open until now.

        Raises:
            LocalError: one of them was sent, or may have left with other answers, since it was checked; nothing was changed.
        """

        def work(db: sqlite3.Connection) -> list[int]:
            opened = []
            for counter, digest in answers.items():
                where = (self._author, counter)
                query = "UPDATE questions SET state = ?, answers = ? WHERE author = ? AND counter = ? AND state = ?"
                if db.execute(query, (State.LEAVING, digest, *where, State.OPEN)).rowcount:
                    opened.append(counter)
                    continue
                query = (
                    "SELECT 1 FROM questions WHERE author = ? AND counter = ? AND state = ? AND answers = ?"
                )
                if db.execute(query, (*where, State.LEAVING, digest)).fetchone() is None:
                    raise LocalError(
                        f"counter {counter} is being contributed by another command",
                        fix="wait for it, then see what is left with --check",
                    )
            return opened

        return self._store.transaction(work)

    def reopen(self, counters: Iterable[int]) -> None:
        """Answers that were about to leave did not, because nobody was there. Only for questions that `begin` found open."""
        self._set(counters, State.OPEN)

    def sent(self, counters: Iterable[int]) -> None:
        """At least one peer was given these."""
        self._set(counters, State.SENT)

    def close(self) -> None:
        self._store.close()

    def _set(self, counters: Iterable[int], state: State) -> None:
        rows = [(state, self._author, counter) for counter in counters]

        def work(db: sqlite3.Connection) -> None:
            db.executemany("UPDATE questions SET state = ? WHERE author = ? AND counter = ?", rows)

        self._store.transaction(work)
