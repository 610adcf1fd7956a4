"""The data directory: one holder, an identity that never changes silently, files that are old or new and never between."""

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from swarmd.errors import DiskFull, Locked, StateError
from swarmd.files.atomic import write_atomically
from swarmd.files.datadir import DataDir, load_identity_seed, locate
from swarmd.files.lock import Lock


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_second_holder_is_told_who_is_the_first(tmp_path: Path) -> None:
    lock = Lock(DataDir(tmp_path))
    with pytest.raises(Locked, match=f"pid {os.getpid()}") as caught:
        Lock(DataDir(tmp_path))
    assert caught.value.exit_code == 10
    lock.release()


def test_a_released_directory_can_be_held_again(tmp_path: Path) -> None:
    Lock(DataDir(tmp_path)).release()
    Lock(DataDir(tmp_path)).release()


def test_a_refused_holder_leaves_the_lock_alone(tmp_path: Path) -> None:
    lock = Lock(DataDir(tmp_path))
    for _ in range(2):
        with pytest.raises(Locked, match=f"pid {os.getpid()}"):
            Lock(DataDir(tmp_path))
    lock.release()


def test_a_new_directory_is_for_its_owner_alone(tmp_path: Path) -> None:
    Lock(DataDir(tmp_path / "a" / "b")).release()
    assert mode_of(tmp_path / "a" / "b") == 0o700


def test_a_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="it is no folder"):
        Lock(DataDir(tmp_path / "file"))


def test_an_identity_is_made_once(tmp_path: Path) -> None:
    seed, new = load_identity_seed(DataDir(tmp_path))
    assert (len(seed), new, mode_of(tmp_path / "identity.key")) == (32, True, 0o600)
    assert load_identity_seed(DataDir(tmp_path)) == (seed, False)


@pytest.mark.parametrize("size", [0, 31, 33, 64])
def test_an_identity_of_the_wrong_size_is_not_replaced(tmp_path: Path, size: int) -> None:
    path = tmp_path / "identity.key"
    write_atomically(path, bytes(size), mode=0o600)
    with pytest.raises(StateError, match=f"{size} bytes instead of 32") as caught:
        load_identity_seed(DataDir(tmp_path))
    assert caught.value.exit_code == 16
    assert path.read_bytes() == bytes(size)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_an_identity_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    load_identity_seed(DataDir(tmp_path))
    (tmp_path / "identity.key").chmod(mode)
    with pytest.raises(StateError, match=f"mode {mode:04o}") as caught:
        load_identity_seed(DataDir(tmp_path))
    assert (caught.value.exit_code, caught.value.fix) == (16, f"chmod 600 {tmp_path / 'identity.key'}")


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", b"old")
    write_atomically(tmp_path / "a", b"new", mode=0o600)
    assert [(p.name, p.read_bytes(), mode_of(p)) for p in tmp_path.iterdir()] == [("a", b"new", 0o600)]


@pytest.mark.parametrize("step", ["open", "fsync", "replace"])
def test_a_full_disk_leaves_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    write_atomically(tmp_path / "a", b"old")

    def full(*args: Any, **kwargs: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path if step == "replace" else os, step, full)
    with pytest.raises(DiskFull, match="no space to write") as caught:
        write_atomically(tmp_path / "a", b"new")
    monkeypatch.undo()
    assert caught.value.exit_code == 17
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("a", b"old")]


def test_another_failure_keeps_its_name_and_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_atomically(tmp_path / "a", b"old")

    def broken(handle: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="Input/output"):
        write_atomically(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"


@pytest.mark.parametrize(
    ("given", "environ", "found"),
    [
        ("/g", {"SWARMD_DATA_DIR": "/s", "STATE_DIRECTORY": "/d", "XDG_STATE_HOME": "/x"}, "/g"),
        (None, {"SWARMD_DATA_DIR": "/s", "STATE_DIRECTORY": "/d", "XDG_STATE_HOME": "/x"}, "/s"),
        (None, {"STATE_DIRECTORY": "/d:/e", "XDG_STATE_HOME": "/x"}, "/d"),
        (None, {"XDG_STATE_HOME": "/x"}, "/x/swarmd"),
        (None, {}, str(Path.home() / ".local/state/swarmd")),
    ],
)
def test_the_nearest_place_is_taken(given: str | None, environ: dict[str, str], found: str) -> None:
    assert locate(given, environ).root == Path(found)


def test_a_socket_path_always_fits_into_a_socket(tmp_path: Path) -> None:
    short, long = DataDir(tmp_path), DataDir(tmp_path / ("x" * 120))
    assert short.socket == tmp_path / "control.sock"
    assert len(os.fsencode(long.socket)) < 104
    assert long.socket != DataDir(tmp_path / ("y" * 120)).socket
