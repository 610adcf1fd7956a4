"""Older files: brought forward whole or not at all, with nothing lost, to what a new file looks like."""

import random
import sqlite3
from pathlib import Path

import pytest

from swarmd.errors import StateError
from swarmd.experience import schema
from swarmd.experience.store import Store
from tests.experience.batches import NOW_MS, UNINFORMATIVE, add, author, open_buffer

VERSION_1 = (Path(__file__).parent / "buffer-version-1.sql").read_text()


def old_file(folder: Path) -> Path:
    """A buffer of version 1: ann holds a used-up rollout and two drawable ones, bob an uninformative one, cyd one of five."""
    path = folder / "buffer.sqlite"
    with sqlite3.connect(path) as db:
        db.executescript(VERSION_1)
    db.close()
    return path


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    db = sqlite3.connect(path)
    found = db.execute(query).fetchall()
    db.close()
    return found


def test_a_buffer_of_version_1_keeps_its_rollouts_and_learns_their_rewards(tmp_path: Path) -> None:
    path = old_file(tmp_path)
    before = rows(path, "SELECT author, counter, worth, uses, size_bytes FROM rollouts ORDER BY id")
    open_buffer(tmp_path, digest=b"one").close()
    assert rows(path, "SELECT author, counter, worth, uses, size_bytes FROM rollouts ORDER BY id") == before
    found = rows(path, "SELECT author, counter, reward_total, num_completions FROM rollouts ORDER BY id")
    assert found == [
        (author("ann"), 1, 1.0, 4),
        (author("ann"), 2, pytest.approx(1.0), 3),
        (author("ann"), 3, pytest.approx(1.0), 3),
        (author("bob"), 1, 0.0, 2),
        (author("cyd"), 9, pytest.approx(4.05), 5),
    ]
    assert rows(path, "PRAGMA user_version") == [(3,)]


def test_what_was_stored_before_can_be_drawn_by_its_rewards(tmp_path: Path) -> None:
    old_file(tmp_path)
    buffer = open_buffer(tmp_path, digest=b"one", strategy="top-total")
    drawn = buffer.sample(3, random.Random(1), now_ms=NOW_MS)
    assert [rollout.author for rollout in drawn.rollouts] == [author("cyd"), author("ann"), author("ann")]
    assert drawn.rollouts[1].completions[0].text == 'ümläut "quoted" \\ \n \x00 日本 0'
    assert len(list(buffer.batches())) == 4


def test_a_file_brought_forward_has_the_tables_of_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    open_buffer(tmp_path / "new").close()
    open_buffer(old_file(tmp_path).parent, digest=b"one").close()
    for table in ("facts", "authors", "batches", "rollouts", "payloads", "tombstones", "asked", "drawn"):
        old, new = (
            rows(path / "buffer.sqlite", f"PRAGMA table_info({table})")
            for path in (tmp_path, tmp_path / "new")
        )
        assert sorted(row[1:] for row in old) == sorted(row[1:] for row in new), table
    names = "SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY 1, 2"
    assert rows(tmp_path / "buffer.sqlite", names) == rows(tmp_path / "new" / "buffer.sqlite", names)


def test_a_file_brought_forward_takes_new_rollouts_and_evicts_by_the_same_rules(tmp_path: Path) -> None:
    old_file(tmp_path)
    buffer = open_buffer(tmp_path, digest=b"one", rollouts_max=5)
    assert add(buffer, "ann", [1]).num_duplicate == 1
    assert add(buffer, "dan", [1]).num_evicted == 1
    assert add(buffer, "dan", [2], rewards_G=UNINFORMATIVE).num_added == 1


def test_a_step_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = old_file(tmp_path)
    broken = (schema.MIGRATIONS[0] + "; INSERT INTO nowhere VALUES (1)", *schema.MIGRATIONS[1:])
    monkeypatch.setattr(schema, "MIGRATIONS", broken)
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        open_buffer(tmp_path, digest=b"one")
    assert rows(path, "PRAGMA user_version") == [(1,)]
    monkeypatch.undo()
    assert open_buffer(tmp_path, digest=b"one").counts(NOW_MS).num_rollouts == 5


def store(path: Path, num_steps: int) -> Store:
    steps = tuple(f"INSERT INTO steps VALUES ({number + 2})" for number in range(num_steps))
    tables = "CREATE TABLE steps(version INTEGER)"
    return Store(path, schema=tables, migrations=steps, synchronous="NORMAL", expendable=False)


@pytest.mark.parametrize(("num_before", "num_after", "taken"), [(0, 2, [2, 3]), (1, 3, [3, 4]), (2, 2, [])])
def test_the_steps_that_are_missing_are_taken_in_their_order(
    tmp_path: Path, num_before: int, num_after: int, taken: list[int]
) -> None:
    store(tmp_path / "a.sqlite", num_before).close()
    store(tmp_path / "a.sqlite", num_after).close()
    assert [row[0] for row in rows(tmp_path / "a.sqlite", "SELECT version FROM steps")] == taken
    assert rows(tmp_path / "a.sqlite", "PRAGMA user_version") == [(num_after + 1,)]


def test_there_is_no_way_back(tmp_path: Path) -> None:
    store(tmp_path / "a.sqlite", 2).close()
    with pytest.raises(StateError, match="has schema 3, this swarmd knows 2"):
        store(tmp_path / "a.sqlite", 1)
