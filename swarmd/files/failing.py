"""What the operator is told of a disk that does not take what is written, or does not give back what was."""

import errno
from pathlib import Path

from swarmd.errors import DiskFull, LocalError, StateError

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_FIXES = {
    errno.EROFS: "mount it writable; a file system turns read-only by itself when its disk fails: see `dmesg`",
    errno.EIO: "the disk fails: see `dmesg` and `smartctl`, and copy the data directory to another disk",
}


def of_disk(error: OSError, root: Path) -> bool:
    """Whether an error that nobody foresaw is one of the file system at `root`: by its kind, or by the file that it names."""
    named = error.filename
    return error.errno in {*FULL, *_FIXES} or (
        isinstance(named, str | Path) and Path(named).is_relative_to(root)
    )


def disk_error(error: OSError, what: str, fix: str = "check the folder and its permissions") -> LocalError:
    """An error of the file system in the operator's words: DiskFull where space is missing, else StateError.

    Args:
        what: what could not be done.
        fix: what to do where the kind of the error does not say it.
    """
    if error.errno in FULL:
        return DiskFull(what, str(error), "free some space; nothing that was stored is lost")
    return StateError(what, str(error), _FIXES.get(error.errno or 0, fix))
