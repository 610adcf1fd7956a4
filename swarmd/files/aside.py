"""Files that cannot be used are renamed, so that somebody can look at them; only the last few stay."""

import contextlib
import re
from pathlib import Path

# Copies of one file with one ending. The newest shows what happened, the one before whether it happens again.
ASIDE_MAX = 2


def set_aside(path: Path, ending: str) -> Path:
    """Rename `path` to `NAME.ENDING-NUMBER` and return that; the oldest such copies are removed. Raises OSError."""
    pattern = re.compile(re.escape(f"{path.name}.{ending}-") + "([0-9]{1,9})")
    found = [
        (int(match[1]), other) for other in path.parent.iterdir() if (match := pattern.fullmatch(other.name))
    ]
    copies = sorted(found)
    target = path.with_name(f"{path.name}.{ending}-{copies[-1][0] + 1 if copies else 1}")
    path.replace(target)
    for _, old in copies[: max(0, len(copies) + 1 - ASIDE_MAX)]:
        with contextlib.suppress(OSError):  # a folder in the file's place, which somebody else put there
            old.unlink()
    return target
