"""The buffer's tables and every statement on them; each function runs inside a transaction of its caller.

Triggers keep what can be derived: the holdings of each author, and a tombstone for every dropped rollout, so that the same rollout
does not come back.
"""

import json
import sqlite3
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from swarmd.experience.advantages import is_informative
from swarmd.experience.sampling import Candidate
from swarmd.experience.store import damaged

# Bytes of a rollout's row, its index entries and its later tombstone, beside the payload: measured on 20,000 rollouts, rounded up.
ROW_BYTES = 400

# Tombstones, about 30 MB. They cover the time in which the wire still accepts an old message: ten minutes by the default
# manifest, at 300 a second. After that the age rule keeps the message out.
TOMBSTONES_MAX = 200_000

USED_UP, UNINFORMATIVE, DRAWABLE = 0, 1, 2  # rollouts.worth: the lower, the earlier it is evicted

# Counts every change of the tables. The buffer is a cache of strangers' rollouts: a file of an older version is set aside.
VERSION: Final = 6

_TABLES = """
CREATE TABLE facts(name TEXT PRIMARY KEY, value BLOB);
CREATE TABLE authors(
    author BLOB PRIMARY KEY, num INTEGER NOT NULL, num_informative INTEGER NOT NULL, size_bytes INTEGER NOT NULL,
    proven INTEGER NOT NULL DEFAULT 1);
CREATE TABLE rollouts(
    id INTEGER PRIMARY KEY, author BLOB NOT NULL, dataset INTEGER NOT NULL, counter INTEGER NOT NULL,
    made_ms INTEGER NOT NULL, worth INTEGER NOT NULL, uses INTEGER NOT NULL DEFAULT 0, size_bytes INTEGER NOT NULL,
    UNIQUE(author, dataset, counter));
CREATE INDEX rollouts_by_worth ON rollouts(worth, made_ms, author);
CREATE INDEX rollouts_by_author ON rollouts(author, worth, made_ms);
CREATE TABLE payloads(id INTEGER PRIMARY KEY, payload BLOB NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE tombstones(
    id INTEGER PRIMARY KEY, author BLOB NOT NULL, dataset INTEGER NOT NULL, counter INTEGER NOT NULL,
    UNIQUE(author, dataset, counter));
CREATE TABLE asked(minute INTEGER PRIMARY KEY, num INTEGER NOT NULL);
CREATE TABLE drawn(author BLOB NOT NULL, minute INTEGER NOT NULL, num INTEGER NOT NULL, PRIMARY KEY(author, minute));

CREATE TRIGGER rollout_added AFTER INSERT ON rollouts BEGIN
    INSERT INTO authors(author, num, num_informative, size_bytes) VALUES (NEW.author, 1, NEW.worth != 1, NEW.size_bytes)
        ON CONFLICT(author) DO UPDATE SET num = num + 1, num_informative = num_informative + excluded.num_informative,
            size_bytes = size_bytes + excluded.size_bytes;
END;
CREATE TRIGGER rollout_dropped AFTER DELETE ON rollouts BEGIN
    UPDATE authors SET num = num - 1, num_informative = num_informative - (OLD.worth != 1),
        size_bytes = size_bytes - OLD.size_bytes WHERE author = OLD.author;
    DELETE FROM authors WHERE author = OLD.author AND num = 0;
    DELETE FROM payloads WHERE id = OLD.id;
    INSERT OR IGNORE INTO tombstones(author, dataset, counter) VALUES (OLD.author, OLD.dataset, OLD.counter);
END
"""

# Uses of a quarantined rollout: more than any setting allows (1,000), so the rollout stays used up whatever is configured later.
QUARANTINED_USES = 1_000_000

# Draws are remembered by the minute: 60 rows an author at the default age limit.
MINUTE_MS = 60_000

Key = tuple[bytes, int, int]  # author, dataset, counter


class Whose(NamedTuple):
    """External rollouts are those of one author with a counter below `counter_max`, or those of all others."""

    author: bytes
    others: bool
    counter_max: int = 0

    @property
    def condition(self) -> str:
        """As SQL, with `args`."""
        return "author != ?" if self.others else "author = ? AND counter < ?"

    @property
    def args(self) -> tuple[bytes | int, ...]:
        """The values of `condition`."""
        return (self.author,) if self.others else (self.author, self.counter_max)


ANYBODY = Whose(b"", others=True)


class Bounds(NamedTuple):
    """Number of rollouts and bytes: as a limit, or as what is held."""

    num: int
    size_bytes: int

    def exceeds(self, limit: "Bounds") -> bool:
        """Whether either of the two passes the limit."""
        return self.num > limit.num or self.size_bytes > limit.size_bytes


def create(digest: bytes) -> str:
    """The statements that make an empty database for the swarm of this digest."""
    return f"{_TABLES}; INSERT INTO facts VALUES ('digest', x'{digest.hex()}')"


def adopt(db: sqlite3.Connection, digest: bytes, uses_max: int) -> None:
    """Make the file fit this node's settings: rollouts of another swarm are dropped."""
    found = db.execute("SELECT value FROM facts WHERE name = 'digest'").fetchone()
    if found[0] != digest:
        db.execute("DELETE FROM rollouts")
        db.execute("DELETE FROM tombstones")
        db.execute("UPDATE facts SET value = ? WHERE name = 'digest'", (digest,))
    query = "UPDATE rollouts SET worth = CASE WHEN uses < ? THEN ? ELSE ? END WHERE worth != ?"
    db.execute(query, (uses_max, DRAWABLE, USED_UP, UNINFORMATIVE))


def is_known(db: sqlite3.Connection, key: Key) -> bool:
    """Whether this rollout is held, or was."""
    condition = "WHERE author = ? AND dataset = ? AND counter = ?"
    query = f"SELECT 1 FROM rollouts {condition} UNION ALL SELECT 1 FROM tombstones {condition} LIMIT 1"
    return db.execute(query, key * 2).fetchone() is not None


def note_proven(db: sqlite3.Connection, author: bytes, *, proven: bool) -> None:
    """Remember whether an author is proven by now, if any of its rollouts is held."""
    db.execute("UPDATE authors SET proven = ? WHERE author = ?", (proven, author))


def insert_rollout(
    db: sqlite3.Connection, key: Key, made_ms: int, rewards_G: Sequence[float], payload: bytes
) -> None:
    """Store a rollout."""
    worth = DRAWABLE if is_informative(rewards_G) else UNINFORMATIVE
    facts = (*key, made_ms, worth, len(payload) + ROW_BYTES)
    query = (
        "INSERT INTO rollouts(author, dataset, counter, made_ms, worth, size_bytes) VALUES (?, ?, ?, ?, ?, ?)"
    )
    row = db.execute(query, facts).lastrowid
    db.execute("INSERT INTO payloads VALUES (?, ?, ?)", (row, payload, _checksum(key, payload)))


def evict(
    db: sqlite3.Connection, author: bytes, author_limit: Bounds, total_limit: Bounds, cutoff_ms: int
) -> int:
    """Drop rollouts until the author and the whole are within their limits; returns how many went."""
    num = 0
    while (own := _held_by(db, author)).exceeds(author_limit):
        _drop(db, _worst(db, cutoff_ms, author))
        _require_fewer(_held_by(db, author), own)
        num += 1
    while (held := _held(db)).exceeds(total_limit):
        _drop(db, _worst(db, cutoff_ms, None) or _oldest_of_largest(db, by_number=held.num > total_limit.num))
        _require_fewer(_held(db), held)
        num += 1
    if num:
        db.execute(
            "DELETE FROM tombstones WHERE id <= (SELECT max(id) FROM tombstones) - ?", (TOMBSTONES_MAX,)
        )
    return num


def candidates(db: sqlite3.Connection, cutoff_ms: int, whose: Whose = ANYBODY) -> list[Candidate]:
    """Every rollout that may be drawn, in an order that depends on the content only."""
    query = (
        "SELECT id, author FROM rollouts"
        f" WHERE worth = ? AND made_ms >= ? AND {whose.condition} ORDER BY worth, made_ms, author, id"
    )
    return [Candidate(*row) for row in db.execute(query, (DRAWABLE, cutoff_ms, *whose.args))]


def uninformative_by_author(
    db: sqlite3.Connection, cutoff_ms: int, whose: Whose = ANYBODY
) -> dict[bytes, int]:
    """How many young rollouts without signal each author has, where it has any."""
    query = f"SELECT author, count(*) FROM rollouts WHERE worth = ? AND made_ms >= ? AND {whose.condition} GROUP BY author"
    return dict(db.execute(query, (UNINFORMATIVE, cutoff_ms, *whose.args)))


def count_over_age(db: sqlite3.Connection, cutoff_ms: int, whose: Whose = ANYBODY) -> int:
    """Informative rollouts that could be drawn but for their age."""
    query = f"SELECT count(*) FROM rollouts WHERE worth = ? AND made_ms < ? AND {whose.condition}"
    return int(db.execute(query, (DRAWABLE, cutoff_ms, *whose.args)).fetchone()[0])


def use(db: sqlite3.Connection, rows: Sequence[int], uses_max: int) -> list[tuple[Key, bytes]]:
    """Count one use of each row and return what lies in them, in the order of `rows`.

    A row that is not as it was written is dropped, and not among the answers: SQLite itself has no checksums.
    """
    db.executemany(
        "UPDATE rollouts SET uses = uses + 1, worth = CASE WHEN uses + 1 < ? THEN worth ELSE ? END WHERE id = ?",
        [(uses_max, USED_UP, row) for row in rows],
    )
    query = (
        "SELECT id, author, dataset, counter, payload, checksum FROM rollouts JOIN payloads USING (id)"
        " WHERE id IN (SELECT value FROM json_each(?))"
    )
    found: dict[int, tuple[Key, bytes]] = {}
    for row, author, dataset, counter, payload, checksum in db.execute(query, (json.dumps(list(rows)),)):
        key = (author, dataset, counter)
        if isinstance(payload, bytes) and _checksum(key, payload) == checksum:
            found[row] = key, payload
    for row in rows:
        if row not in found:
            _drop(db, row)
    return [found[row] for row in rows if row in found]


def _checksum(key: Key, payload: bytes) -> int:
    return zlib.crc32(repr(key).encode() + payload)


def note_draw(
    db: sqlite3.Connection, num_asked: int, authors: Iterable[bytes], now_ms: int, cutoff_ms: int
) -> None:
    """Count what was asked for, and one for each author of what was drawn; what is as old as over-age rollouts is forgotten."""
    minute = now_ms // MINUTE_MS
    add = "ON CONFLICT DO UPDATE SET num = num + excluded.num"
    db.execute(f"INSERT INTO asked VALUES (?, ?) {add}", (minute, num_asked))
    found = [(author, minute, num) for author, num in Counter(authors).items()]
    db.executemany(f"INSERT INTO drawn VALUES (?, ?, ?) {add}", found)
    for table in ("asked", "drawn"):
        db.execute(f"DELETE FROM {table} WHERE minute < ?", (cutoff_ms // MINUTE_MS,))


def drawn_lately(db: sqlite3.Connection) -> tuple[int, dict[bytes, int]]:
    """How many rollouts were asked for within the age limit, and how many were drawn of each author."""
    asked = db.execute("SELECT coalesce(sum(num), 0) FROM asked").fetchone()[0]
    return int(asked), dict(db.execute("SELECT author, sum(num) FROM drawn GROUP BY author"))


def quarantine(db: sqlite3.Connection, authors: Collection[bytes]) -> int:
    """Use up what could still be drawn of these authors; returns how many rollouts that were."""
    query = "UPDATE rollouts SET uses = ?, worth = ? WHERE worth = ? AND author = ?"
    rows = [(QUARANTINED_USES, USED_UP, DRAWABLE, author) for author in authors]
    return max(0, db.executemany(query, rows).rowcount)


def holdings(db: sqlite3.Connection) -> list[tuple[bytes, int, int, int]]:
    """Of each author: its key, rollouts, informative rollouts (used up or not) and bytes. Reads no rollout."""
    return db.execute("SELECT author, num, num_informative, size_bytes FROM authors").fetchall()


def _held(db: sqlite3.Connection) -> Bounds:
    query = "SELECT coalesce(sum(num), 0), coalesce(sum(size_bytes), 0) FROM authors"
    return Bounds(*db.execute(query).fetchone())


def _held_by(db: sqlite3.Connection, author: bytes) -> Bounds:
    found = db.execute("SELECT num, size_bytes FROM authors WHERE author = ?", (author,)).fetchone()
    return Bounds(*found) if found else Bounds(0, 0)


def _require_fewer(now: Bounds, before: Bounds) -> None:
    """Raises DatabaseError where a dropped rollout was not one of those counted: eviction would never end."""
    if now.num != before.num - 1:
        raise damaged("authors hold other rollouts than there are")


def _worst(db: sqlite3.Connection, cutoff_ms: int, author: bytes | None) -> int | None:
    """The author's rollout to drop next; of all authors, one that will not be drawn again, or None."""
    whose, args = ("author = ? AND ", (author,)) if author is not None else ("", ())
    over_age = f"SELECT id FROM rollouts WHERE {whose}worth IN (0, 1, 2) AND made_ms < ? LIMIT 1"
    found = _first(db, over_age, (*args, cutoff_ms))
    if found is None:
        worths = "worth IN (0, 1, 2)" if author is not None else "worth IN (0, 1)"
        found = _first(
            db, f"SELECT id FROM rollouts WHERE {whose}{worths} ORDER BY worth, made_ms, id LIMIT 1", args
        )
    return found


def _oldest_of_largest(db: sqlite3.Connection, *, by_number: bool) -> int | None:
    """The oldest informative rollout of the author who holds most, by number or by bytes.

    Authors who are not proven count as one. New names with one rollout each would otherwise displace every author who holds two.
    """
    measure = "num" if by_number else "size_bytes"
    of_new = db.execute(f"SELECT coalesce(sum({measure}), 0) FROM authors WHERE NOT proven").fetchone()[0]
    of_one = db.execute(f"SELECT coalesce(max({measure}), 0) FROM authors WHERE proven").fetchone()[0]
    query = (
        "SELECT id FROM rollouts WHERE worth = ? AND author ="
        f" (SELECT author FROM authors WHERE proven = ? ORDER BY {measure} DESC, author LIMIT 1) ORDER BY made_ms, id LIMIT 1"
    )
    return _first(db, query, (DRAWABLE, of_one >= of_new))


def _first(db: sqlite3.Connection, query: str, args: tuple[bytes | int, ...]) -> int | None:
    found = db.execute(query, args).fetchone()
    return found[0] if found else None


def _drop(db: sqlite3.Connection, row: int | None) -> None:
    if row is None:
        raise damaged("authors hold more rollouts than there are")
    db.execute("DELETE FROM rollouts WHERE id = ?", (row,))
