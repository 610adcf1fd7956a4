"""Tracebacks of errors that nobody foresaw, each in a file of its own, of which the last few stay."""

import contextlib
import os
import stat
import tempfile
from pathlib import Path

_PREFIX, _SUFFIX = "swarmd-traceback-", ".txt"
# A node that crashes at each start leaves one for each.
TRACEBACKS_MAX = 10


def keep_traceback(text: str) -> Path:
    """A new file with this text in the temporary directory; the oldest of this user's are removed. Raises OSError."""
    old = sorted(_own(Path(tempfile.gettempdir())))
    for _, path in old[: max(0, len(old) + 1 - TRACEBACKS_MAX)]:
        with contextlib.suppress(OSError):  # another command has removed it
            path.unlink()
    with tempfile.NamedTemporaryFile("w", prefix=_PREFIX, suffix=_SUFFIX, delete=False) as file:
        file.write(text)
    return Path(file.name)


def _own(folder: Path) -> list[tuple[int, Path]]:
    """This user's such files, with the time of each."""
    found = []
    for path in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        with contextlib.suppress(OSError):
            about = path.lstat()
            if stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid():
                found.append((about.st_mtime_ns, path))
    return found
