"""The buffer when things go wrong: kill -9, restarts, a full disk, damaged and foreign files."""

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from swarmd.errors import DiskFull, StateError
from swarmd.experience import schema
from swarmd.experience.buffer import AddResult, SwarmBuffer
from swarmd.experience.store import Store
from tests.experience.batches import NOW_MS, add, open_buffer, open_counter

VICTIM = """
import json, pathlib, sys
from tests.experience.batches import add, open_buffer, open_counter
folder = pathlib.Path(sys.argv[1])
buffer = open_buffer(folder, rollouts_max=50)
counter = open_counter(folder)
for number in range(10**6):
    first = counter.reserve(3)
    add(buffer, "ann", [first, first + 1, first + 2], text="x" * 2000)
    print(json.dumps([first, buffer.counts().num_rollouts]), flush=True)
"""


def damage(path: Path) -> None:
    """Overwrite the middle of a database, as a failing disk would."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))


def make_foreign(path: Path, version: int) -> None:
    """A sound database with nothing of ours in it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("CREATE TABLE other(x)")
        db.execute(f"PRAGMA user_version={version}")


def fill(buffer: SwarmBuffer) -> None:
    """Let the database file grow no further."""
    pages = buffer._store.transaction(lambda db: db.execute("PRAGMA page_count").fetchone()[0])
    buffer._store.transaction(lambda db: db.execute(f"PRAGMA max_page_count={pages}").fetchone())


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    add(buffer, "ann", [1, 2])
    buffer.sample(1, random.Random(1), now_ms=NOW_MS)
    before = buffer.counts()
    buffer.close()
    assert open_buffer(tmp_path).counts() == before


def test_duplicates_are_known_after_a_restart_even_when_evicted(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path, rollouts_max=1)
    add(buffer, "ann", [1], age_s=60)
    add(buffer, "ann", [2])
    buffer.close()
    assert add(open_buffer(tmp_path, rollouts_max=1), "ann", [1, 2]) == AddResult(0, 2, 0)


def test_tombstones_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "TOMBSTONES_MAX", 5)
    buffer = open_buffer(tmp_path, rollouts_max=1)
    for counter in range(20):
        add(buffer, "ann", [counter], age_s=100 - counter)
    count = "SELECT count(*) FROM tombstones"
    assert buffer._store.transaction(lambda db: db.execute(count).fetchone()[0]) == 5


def test_a_higher_limit_of_uses_brings_used_up_rollouts_back(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path, uses_max=1)
    add(buffer, "ann", [1])
    buffer.sample(1, random.Random(1), now_ms=NOW_MS)
    buffer.close()
    assert open_buffer(tmp_path, uses_max=2).sample(1, random.Random(1), now_ms=NOW_MS).num_pool == 1


def test_another_swarm_finds_an_empty_buffer(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path, digest=b"one")
    add(buffer, "ann", [1, 2])
    buffer.close()
    other = open_buffer(tmp_path, digest=b"two")
    assert other.counts().num_rollouts == 0
    assert add(other, "ann", [1]) == AddResult(1, 0, 0)


def test_kill_9_in_the_middle_of_adds_loses_nothing_acknowledged(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    child = subprocess.Popen(
        [sys.executable, "-c", VICTIM, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert child.stdout is not None
    lines = [child.stdout.readline() for _ in range(40)]
    child.send_signal(signal.SIGKILL)
    lines += child.stdout.readlines()
    child.wait()
    first, num_rollouts = json.loads([line for line in lines if line.endswith("\n")][-1])

    buffer = open_buffer(tmp_path, rollouts_max=50)
    assert buffer._store.transaction(lambda db: db.execute("PRAGMA integrity_check").fetchone()) == ("ok",)
    assert add(buffer, "ann", [first, first + 1, first + 2]) == AddResult(0, 3, 0)
    assert buffer.counts().num_rollouts == num_rollouts == 50
    assert open_counter(tmp_path).reserve(1) >= first + 3
    assert buffer.moved_aside == ()


def test_a_full_disk_loses_nothing_that_was_stored(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    add(buffer, "ann", [1, 2])
    before = buffer.counts()
    fill(buffer)
    with pytest.raises(DiskFull, match="no space") as caught:
        add(buffer, "bob", range(50), text="x" * 10_000)
    assert caught.value.exit_code == 17
    assert buffer.counts() == before


def test_a_buffer_works_again_once_there_is_space(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    fill(buffer)
    with pytest.raises(DiskFull):
        add(buffer, "bob", range(50), text="x" * 10_000)
    buffer._store.transaction(lambda db: db.execute("PRAGMA max_page_count=1000000").fetchone())
    assert add(buffer, "bob", range(50), text="x" * 10_000).num_added == 50


@pytest.mark.parametrize("content", [b"garbage" * 1000, b"SQLite format 3\x00" + b"\xff" * 5000])
def test_a_file_that_is_no_database_is_moved_aside(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "buffer.sqlite").write_bytes(content)
    buffer = open_buffer(tmp_path)
    assert buffer.moved_aside == (tmp_path / "buffer.sqlite.corrupt-1",)
    assert buffer.moved_aside[0].read_bytes() == content
    assert add(buffer, "ann", [1]).num_added == 1


@pytest.mark.parametrize("version", [-1, schema.VERSION])
def test_a_database_of_another_program_is_moved_aside(tmp_path: Path, version: int) -> None:
    make_foreign(tmp_path / "buffer.sqlite", version)
    buffer = open_buffer(tmp_path)
    assert (len(buffer.moved_aside), buffer.counts().num_rollouts) == (1, 0)


def test_damage_found_later_costs_the_content_but_not_the_node(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    add(buffer, "ann", range(100), text="x" * 500)
    buffer.close()
    damage(tmp_path / "buffer.sqlite")
    buffer = open_buffer(tmp_path)
    assert add(buffer, "ann", [1]).num_added == 1
    assert buffer.sample(1, random.Random(1), now_ms=NOW_MS).shortfall == 0
    assert len(buffer.moved_aside) == 1


@pytest.mark.parametrize("payload", [b"[{", b"\xff", b"3", b"[1, 2, 3, [4]]"])
def test_a_rollout_that_cannot_be_read_costs_itself_alone(tmp_path: Path, payload: bytes) -> None:
    buffer = open_buffer(tmp_path)
    add(buffer, "ann", [1, 2])
    with closing(sqlite3.connect(tmp_path / "buffer.sqlite", isolation_level=None)) as db:
        db.execute("UPDATE payloads SET payload = ? WHERE id = 1", (payload,))
    sample = buffer.sample(2, random.Random(1), now_ms=NOW_MS)
    assert ([rollout.counter for rollout in sample.rollouts], sample.num_damaged) == ([2], 1)
    assert (buffer.counts().num_rollouts, buffer.moved_aside) == (1, ())


def test_a_second_damaged_file_does_not_replace_the_first(tmp_path: Path) -> None:
    for content in (b"first" * 1000, b"second" * 1000):
        (tmp_path / "buffer.sqlite").write_bytes(content)
        open_buffer(tmp_path).close()
    assert (tmp_path / "buffer.sqlite.corrupt-1").read_bytes() == b"first" * 1000
    assert (tmp_path / "buffer.sqlite.corrupt-2").read_bytes() == b"second" * 1000


def test_a_newer_schema_is_refused_and_both_versions_named(tmp_path: Path) -> None:
    open_buffer(tmp_path).close()
    with sqlite3.connect(tmp_path / "buffer.sqlite") as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(StateError, match=f"schema 99, this swarmd knows {schema.VERSION}") as caught:
        open_buffer(tmp_path)
    assert caught.value.exit_code == 16


def test_a_buffer_of_an_older_version_is_set_aside_whole(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    add(buffer, "ann", [1, 2])
    buffer._store.transaction(lambda db: db.execute(f"PRAGMA user_version={schema.VERSION - 1}"))
    killed = tmp_path / "killed"
    killed.mkdir()
    for name in ("buffer.sqlite", "buffer.sqlite-wal"):  # as a killed node leaves them: all is in the log
        shutil.copy(tmp_path / name, killed / name)
    again = open_buffer(killed)
    assert (again.moved_aside, again.counts().num_rollouts) == ((killed / "buffer.sqlite.old-1",), 0)
    with closing(sqlite3.connect(again.moved_aside[0])) as old:
        assert old.execute("SELECT count(*) FROM rollouts").fetchone() == (2,)


def test_a_counter_of_an_older_version_is_refused(tmp_path: Path) -> None:
    def store(version: int) -> Store:
        tables = "CREATE TABLE facts(value INTEGER)"
        path = tmp_path / "node.sqlite"
        return Store(path, schema=tables, version=version, synchronous="FULL", expendable=False)

    store(1).close()
    with pytest.raises(StateError, match=r"schema 1, this swarmd knows 2\s+an older swarmd"):
        store(2)
    assert list(tmp_path.glob("*.old*")) == []


def test_a_missing_folder_is_the_operators_to_mend(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="cannot use"):
        open_buffer(tmp_path / "nowhere")


def test_a_second_reader_does_not_disturb_the_node(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    add(buffer, "ann", [1])
    with sqlite3.connect(tmp_path / "buffer.sqlite") as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM rollouts").fetchone()
        assert add(buffer, "ann", [2]).num_added == 1
