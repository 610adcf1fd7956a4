"""One SQLite file with a schema version: transactions that are whole or nothing, and errors in the operator's words.

A file of a newer version is refused. A file that is damaged or of an older version is moved aside and replaced by an empty file
where the caller can spare the content; elsewhere it is refused too.
"""

import contextlib
import logging
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

from swarmd.errors import DiskFull, StateError, SwarmdError
from swarmd.files.aside import set_aside

T = TypeVar("T")

log = logging.getLogger(__name__)

# Only another process that uses the file (`swarmd contribute`) can make this process wait, for one transaction.
BUSY_TIMEOUT_S = 10.0
# The write-ahead log is cut back to this after a checkpoint. A batch is under 1 MB.
LOG_BYTES_MAX = 16 * 2**20
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class _Outdated(Exception):
    """An older swarmd wrote the file."""


class Store:
    """A database file for any number of threads; processes that share it wait for each other's transactions. The owner closes it.

    Args:
        path: the file; its folder must exist.
        schema: statements that make an empty database.
        version: of that schema, kept in `PRAGMA user_version`; from 1.
        synchronous: "FULL" survives a power cut, "NORMAL" only the death of the process (a power cut may lose the last
            transactions, never consistency).
        expendable: whether a damaged or older file may be replaced by an empty one.

    Raises:
        StateError: newer version, not accessible, or not expendable and damaged or older.
        DiskFull: no space for an empty database.
    """

    def __init__(
        self,
        path: Path,
        *,
        schema: str,
        synchronous: Literal["NORMAL", "FULL"],
        expendable: bool,
        version: int = 1,
    ) -> None:
        self.path, self.moved_aside = path, list[Path]()
        self._schema, self._version, self._synchronous = schema, version, synchronous
        self._expendable = expendable
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._opened = False
        self.transaction(lambda db: None)
        self._opened = True

    def transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one transaction and return what it returns; on any error nothing of it is kept.

        `work` may run a second time, on an empty database, when the file turns out to be damaged.
        """
        with self._lock:
            try:
                return self._attempt(work)
            except _Outdated as error:
                if not self._expendable:
                    fix = "use that one, or move the file away"
                    raise StateError(str(error), "an older swarmd wrote the file", fix) from None
                self._move_aside("old")
            except sqlite3.DatabaseError as error:
                if not (self._expendable and _code(error) in _DAMAGED):
                    raise self._explain(error) from error
                self._move_aside("corrupt")
            try:
                return self._attempt(work)
            except sqlite3.DatabaseError as error:
                raise self._explain(error) from error

    def close(self) -> None:
        """Close the file; the next use would open it again."""
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def _attempt(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return self._once(work)
        except (UnicodeDecodeError, sqlite3.OperationalError) as error:
            # Python's two ways to say that a text in the file is none.
            if isinstance(error, UnicodeDecodeError) or str(error).startswith("Could not decode"):
                raise damaged(str(error)) from None
            raise

    def _once(self, work: Callable[[sqlite3.Connection], T]) -> T:
        db = self._db if self._db is not None else self._open()
        db.execute("BEGIN IMMEDIATE")
        try:
            result = work(db)
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:  # SQLite itself rolls back on a full disk
                db.execute("ROLLBACK")
            raise
        return result

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        try:
            found = db.execute("PRAGMA user_version").fetchone()[0]
            if found < 0:
                raise damaged(f"its schema is {found}")
            what = f"{self.path} has schema {found}, this swarmd knows {self._version}"
            if found > self._version:
                raise StateError(
                    what, "a newer swarmd wrote the file", "upgrade swarmd, or move the file away"
                )
            if 0 < found < self._version:
                raise _Outdated(what)
            db.execute("PRAGMA journal_mode=WAL")
            db.execute(f"PRAGMA synchronous={self._synchronous}")
            db.execute(f"PRAGMA journal_size_limit={LOG_BYTES_MAX}")
            if found == 0:
                db.executescript(
                    f"BEGIN IMMEDIATE; {self._schema}; PRAGMA user_version={self._version}; COMMIT"
                )
            self._require_schema(db)
        except BaseException:
            db.close()
            raise
        self._db = db
        return db

    def _require_schema(self, db: sqlite3.Connection) -> None:
        """Raises DatabaseError for a database whose tables and triggers are not word for word those of this version."""
        with contextlib.closing(sqlite3.connect(":memory:")) as model:
            model.executescript(self._schema)
            if missing := _schema_of(model) - _schema_of(db):
                raise damaged(f"it lacks {min(missing)[0]}")

    def _move_aside(self, ending: str) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
        target = set_aside(self.path, ending)
        for suffix in ("-wal", "-shm"):  # a stale log would be replayed into the new file
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        self.moved_aside.append(target)
        if self._opened:  # whoever opens it says what he found
            log.warning("%s was %s; it lies in %s, and an empty one was begun", self.path, ending, target)

    def _explain(self, error: sqlite3.DatabaseError) -> SwarmdError | sqlite3.DatabaseError:
        """An error that the machine causes, in the operator's words. An error of our own making stays as it is."""
        code = _code(error)
        if code == sqlite3.SQLITE_FULL:
            return DiskFull(
                f"no space to write {self.path}", str(error), "free some space; what was stored is safe"
            )
        if code in _DAMAGED:
            return StateError(f"{self.path} is damaged", str(error), "restore your copy of it")
        if isinstance(error, sqlite3.OperationalError) and code != sqlite3.SQLITE_ERROR:
            return StateError(
                f"cannot use {self.path}", str(error), "check the disk and the file's permissions"
            )
        return error


def _schema_of(db: sqlite3.Connection) -> set[tuple[str, str]]:
    """Every table, index and trigger with the statement that made it."""
    query = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"
    return set(db.execute(query).fetchall())


def damaged(what: str) -> sqlite3.DatabaseError:
    """What SQLite itself raises for a damaged file: raised within a transaction, it moves the file aside or refuses it."""
    error = sqlite3.DatabaseError(what)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def _code(error: sqlite3.DatabaseError) -> int:
    """The primary result code; 0 for errors raised by Python's module itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
