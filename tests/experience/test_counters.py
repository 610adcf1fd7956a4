"""The question counter never goes back, whatever became of its file; and what it had to skip is said."""

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from swarmd.errors import StateError
from swarmd.experience.counters import CLOCK_BEGAN_MS, PER_SECOND_MAX, QuestionCounter
from tests.experience import batches

NOW_MS = CLOCK_BEGAN_MS + 86_400_000
CLOCK = PER_SECOND_MAX * 86_400


def open_counter(folder: Path, *, used: int | None = None, now_ms: int = NOW_MS) -> QuestionCounter:
    return batches.open_counter(folder, used=used, now_ms=now_ms)


def used_up_to(folder: Path, num: int) -> None:
    """A counter of which `num` numbers were given out, one a second, closed as a killed process leaves it: with its log."""
    times_ms = iter(range(NOW_MS - num * 1000, NOW_MS + 1, 1000))
    counter = QuestionCounter(folder / "node.sqlite", used=None, now_ms=lambda: next(times_ms))
    for _ in range(num):
        counter.reserve(1)
    kept = folder / "kept"
    kept.mkdir()
    for path in folder.glob("node.sqlite*"):
        shutil.copy(path, kept / path.name)
    counter.close()
    for path in folder.glob("node.sqlite*"):
        path.unlink()
    for path in kept.iterdir():
        path.rename(folder / path.name)
    kept.rmdir()


def change(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "node.sqlite", isolation_level=None)) as db:
        db.execute(statement)


def test_numbers_are_given_out_once_across_restarts(tmp_path: Path) -> None:
    firsts = []
    for num in (1, 4, 2):
        counter = open_counter(tmp_path)
        firsts.append(counter.reserve(num))
        counter.close()
    assert firsts == [0, 1, 5]


def test_none_at_all_cannot_be_reserved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one"):
        open_counter(tmp_path).reserve(0)


def test_two_owners_of_the_file_never_give_out_the_same(tmp_path: Path) -> None:
    one, other = open_counter(tmp_path), open_counter(tmp_path)
    assert [one.reserve(2), other.reserve(3), one.reserve(1)] == [0, 2, 5]


def test_an_old_copy_skips_what_could_have_been_asked_since(tmp_path: Path) -> None:
    """A data directory that was copied while the node ran, or last week's."""
    used_up_to(tmp_path, 54)
    week_s = 7 * 86400
    counter = open_counter(tmp_path, used=54, now_ms=NOW_MS + week_s * 1000)
    assert counter.reserve(1) == 54 + PER_SECOND_MAX * week_s
    assert counter.note == ""


def test_a_clock_that_was_set_back_gives_out_nothing_twice(tmp_path: Path) -> None:
    used_up_to(tmp_path, 54)
    assert open_counter(tmp_path, used=54, now_ms=NOW_MS - 10**9).reserve(1) == 54


def test_a_clock_that_no_clock_is_is_not_asked(tmp_path: Path) -> None:
    used_up_to(tmp_path, 54)
    counter = open_counter(tmp_path, used=60, now_ms=2**62)
    assert counter.reserve(1) == 60
    assert "clock" in counter.note


def removed(folder: Path, rng: random.Random) -> None:
    for path in folder.glob("node.sqlite*"):
        path.unlink()


def emptied(folder: Path, rng: random.Random) -> None:
    (folder / "node.sqlite").write_bytes(b"")
    (folder / "node.sqlite-wal").unlink()


def another_programs(folder: Path, rng: random.Random) -> None:
    removed(folder, rng)
    change(folder, "CREATE TABLE other(x)")
    change(folder, "PRAGMA user_version=1")


def without_log(folder: Path, rng: random.Random) -> None:
    (folder / "node.sqlite-wal").unlink()


def no_database(folder: Path, rng: random.Random) -> None:
    removed(folder, rng)
    (folder / "node.sqlite").write_bytes(b"not a database, however long it may be" * 40)


def one_bit(name: str) -> Callable[[Path, random.Random], None]:
    def flip(folder: Path, rng: random.Random) -> None:
        data = bytearray((folder / name).read_bytes())
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        (folder / name).write_bytes(data)

    return flip


def set_to(value: str) -> Callable[[Path, random.Random], None]:
    return lambda folder, rng: change(folder, f"UPDATE facts SET value = {value} WHERE name = 'next_counter'")


DAMAGE = {
    "removed": removed,
    "emptied": emptied,
    "another program's": another_programs,
    "without its log": without_log,
    "no database": no_database,
    "without rows": lambda folder, rng: change(folder, "DELETE FROM facts"),
    "set back": set_to("7"),
    "negative": set_to("-5"),
    "too large": set_to("9223372036854775807"),
    "no number": set_to("1e300"),
}


@pytest.mark.parametrize("witness", [54, 0], ids=["a checkpoint of the last round", "no checkpoint"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_leads_forward_and_is_said(tmp_path: Path, damage: str, witness: int) -> None:
    used_up_to(tmp_path, 54)
    DAMAGE[damage](tmp_path, random.Random(1))
    counter = open_counter(tmp_path, used=witness)
    assert counter.reserve(1) == CLOCK
    assert "goes on from" in counter.note
    counter.close()
    assert open_counter(tmp_path, used=witness).reserve(1) == CLOCK + 1


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("name", ["node.sqlite", "node.sqlite-wal"])
def test_one_bit_anywhere_gives_out_nothing_twice(tmp_path: Path, name: str, seed: int) -> None:
    used_up_to(tmp_path, 54)
    one_bit(name)(tmp_path, random.Random(f"{name} {seed}"))
    try:
        counter = open_counter(tmp_path, used=0)
    except StateError as refused:  # the bit made it a newer swarmd's
        if "newer" not in refused.why:
            raise
    else:
        assert counter.reserve(1) >= 54


@pytest.mark.parametrize("part", range(1, 12))
def test_a_log_that_was_cut_off_gives_out_nothing_twice(tmp_path: Path, part: int) -> None:
    used_up_to(tmp_path, 54)
    log = tmp_path / "node.sqlite-wal"
    log.write_bytes(log.read_bytes()[: log.stat().st_size * part // 12])
    assert open_counter(tmp_path, used=0).reserve(1) >= 54


def test_a_new_identity_begins_at_0(tmp_path: Path) -> None:
    (tmp_path / "node.sqlite").write_bytes(b"nonsense" * 100)
    counter = open_counter(tmp_path, used=None)
    assert counter.reserve(1) == 0
    assert "damaged" in counter.note


def test_a_file_that_is_lost_while_it_is_open_loses_no_number(tmp_path: Path) -> None:
    counter = open_counter(tmp_path)
    counter.reserve(10)
    change(tmp_path, "DELETE FROM facts")
    assert counter.reserve(1) == 10
