"""Ways to damage a file of a data directory: each is given the directory, and changes it."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from swarmd.files.checked import encode_checked

Damage = Callable[[Path], None]
NEWER = 99


def of(name: str, change: Callable[[Path], None]) -> Damage:
    """The change to the file of this name."""
    return lambda root: change(root / name)


def settled(name: str, change: Callable[[Path], None]) -> Damage:
    """The change to a database whose log was written back before, as after an orderly stop."""

    def work(root: Path) -> None:
        with closing(sqlite3.connect(root / name)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        change(root / name)

    return work


def flip(path: Path, *, at: float = 0.5, bit: int = 0) -> None:
    """One bit, at this part of the file."""
    data = bytearray(path.read_bytes())
    data[min(int(at * len(data)), len(data) - 1)] ^= 1 << bit
    path.write_bytes(data)


def flip_first(path: Path) -> None:
    flip(path, at=0.0)


def flip_header(path: Path) -> None:
    """One bit of the salt in the header of a log: all its frames then count as left by an earlier log."""
    data = bytearray(path.read_bytes())
    data[17] ^= 1
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    """The first half stays."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def cut_lines(path: Path) -> None:
    """The first half of the lines stays."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: len(lines) // 2]))


def torn(path: Path) -> None:
    """The last line lacks its end."""
    path.write_bytes(path.read_bytes()[:-20])


def zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def sql(*statements: str) -> Callable[[Path], None]:
    """Statements on a database."""

    def work(path: Path) -> None:
        with closing(sqlite3.connect(path)) as db:
            for statement in statements:
                db.execute(statement)
            db.commit()

    return work


def flip_payloads(path: Path) -> None:
    """One bit of each rollout's content."""
    with closing(sqlite3.connect(path)) as db:
        for row, payload in db.execute("SELECT id, payload FROM payloads").fetchall():
            changed = bytes([payload[0] ^ 1]) + payload[1:]
            db.execute("UPDATE payloads SET payload = ? WHERE id = ?", (changed, row))
        db.commit()


def flip_structure(path: Path) -> None:
    """One bit of the kind of the page where a table begins."""
    with closing(sqlite3.connect(path)) as db:
        page = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'rollouts'").fetchone()[0]
        size = db.execute("PRAGMA page_size").fetchone()[0]
    data = bytearray(path.read_bytes())
    data[(page - 1) * size] ^= 1
    path.write_bytes(data)


def newer(path: Path) -> None:
    """A whole document of a later version."""
    path.write_bytes(encode_checked(NEWER, {"something": "else"}))


def infinity(path: Path) -> None:
    """A file of the first version, with a number that no node writes."""
    peers = json.loads(path.read_bytes())["peers"]
    text = json.dumps({"version": 1, "peers": [{**peer, "last_ok_s": float("inf")} for peer in peers]})
    path.write_text(text)


def in_newest(name: str, change: Callable[[Path], None]) -> Damage:
    """The change to a file of the newest checkpoint."""
    return lambda root: change(_checkpoints(root)[-1] / name)


def in_all(name: str, change: Callable[[Path], None]) -> Damage:
    """The change to a file of every checkpoint."""

    def work(root: Path) -> None:
        for checkpoint in _checkpoints(root):
            change(checkpoint / name)

    return work


def newer_format(path: Path) -> None:
    """A checkpoint's list of files in a later format."""
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "format": NEWER}))


def half_removed(root: Path) -> None:
    """What a swarmd that removed checkpoints under their names left after a kill."""
    (_checkpoints(root)[0] / "optimizer.safetensors").unlink()


def half_gone(root: Path) -> None:
    """What a kill leaves in the removal of an old checkpoint."""
    old = _checkpoints(root)[0]
    gone = old.with_name(f".gone-{old.name}")
    shutil.copytree(old, gone)
    (gone / "manifest.json").unlink()


def leave_temporaries(root: Path) -> None:
    for number in range(3):
        (root / f".standings.json.{number + 100}.tmp").write_bytes(b"{")


def nothing(root: Path) -> None:
    """For comparison: a node that was killed, and whose files are whole."""


def _checkpoints(root: Path) -> list[Path]:
    """The oldest first; there are two at least."""
    found = sorted((root / "checkpoints").glob("round-*"))
    assert len(found) > 1, f"only {len(found)} checkpoints"
    return found


remove = partial(Path.unlink)
