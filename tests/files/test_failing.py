"""Errors of the file system in the operator's words, wherever they come up."""

import errno
from pathlib import Path

import pytest

from swarmd.errors import DiskFull, LocalError, StateError
from swarmd.files.datadir import DataDir
from swarmd.files.failing import disk_error, of_disk
from swarmd.files.lock import Lock


@pytest.mark.parametrize(
    ("number", "kind", "fix"),
    [
        (errno.ENOSPC, DiskFull, "free some space"),
        (errno.EDQUOT, DiskFull, "free some space"),
        (errno.EROFS, StateError, "mount it writable"),
        (errno.EIO, StateError, "dmesg"),
        (errno.EACCES, StateError, "the fix"),
    ],
)
def test_the_kind_of_the_error_decides_code_and_advice(number: int, kind: type[LocalError], fix: str) -> None:
    told = disk_error(OSError(number, "words"), "cannot write", "the fix")
    assert type(told) is kind
    assert (told.what, fix in told.fix) == ("cannot write", True)
    assert "words" in told.why


@pytest.mark.parametrize(
    ("error", "is_of_disk"),
    [
        (OSError(errno.EROFS, ""), True),
        (OSError(errno.EACCES, "", "/data/buffer.sqlite"), True),
        (OSError(errno.EACCES, "", "/elsewhere/file"), False),
        (OSError(errno.ECONNRESET, ""), False),
        (OSError(errno.EMFILE, "", 7), False),
    ],
)
def test_an_error_of_a_socket_is_not_taken_for_the_disks(error: OSError, is_of_disk: bool) -> None:
    assert of_disk(error, Path("/data")) is is_of_disk


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, DiskFull), (errno.EROFS, StateError)])
def test_a_directory_that_cannot_be_made_or_held_is_told_by_its_cause(
    number: int, kind: type[LocalError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: object, **more: object) -> None:
        raise OSError(number, "the disk")

    monkeypatch.setattr("swarmd.files.lock.locked_file", fails)
    with pytest.raises(kind, match="cannot use the data directory"):
        Lock(DataDir(tmp_path / "there"))
    monkeypatch.setattr(Path, "mkdir", fails)
    with pytest.raises(kind, match="cannot make"):
        Lock(DataDir(tmp_path / "other"))
