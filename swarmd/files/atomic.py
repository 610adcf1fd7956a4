"""Files that hold their old or their new content after a crash at any moment, never something between."""

import contextlib
import errno
import os
import re
from pathlib import Path

from swarmd.errors import DiskFull

_TEMPORARY = re.compile(r"\..+\.[0-9]+\.tmp")


def write_atomically(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Replace `path` so that after a crash at any moment it holds the old or the new bytes. Raises DiskFull or OSError.

    The temporary file is always a new one: a link that lies in its place is removed and not followed.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.unlink(missing_ok=True)  # of a killed process that had our number
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        fsync_directory(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        if error.errno == errno.ENOSPC:
            raise DiskFull(
                f"no space to write {path}", str(error), "free some space; nothing was lost"
            ) from None
        raise


def remove_left_over(folder: Path) -> int:
    """Remove the temporary files that killed processes left in a folder in which nobody writes now; returns how many.

    Raises OSError where the folder cannot be read.
    """
    left = [path for path in folder.iterdir() if _TEMPORARY.fullmatch(path.name)]
    for path in left:
        with contextlib.suppress(OSError):  # no file, so none of ours
            path.unlink()
    return len(left)


def fsync_directory(path: Path) -> None:
    """Flush a folder's entries, so that a rename inside it survives a power cut. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
