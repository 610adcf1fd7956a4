"""Folders that appear complete or not at all, also across a power cut; imports no torch.

Written to a temporary sibling, flushed, renamed, and the rename flushed too. A name tells what a crash left behind.
"""

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swarmd.errors import DiskFull, LocalError, StateError
from swarmd.files.atomic import fsync_directory

TEMPORARY, REPLACED, DISCARDED = ".tmp-", ".old-", ".gone-"
# Left free by what goes to the data directory: the rollout buffer's journal lives there too and must not meet a full disk.
RESERVE_BYTES = 64 * 2**20
# Left free in the host's memory beside the copy of a checkpoint's tensors. Half of it is less than the daemon and its children grow
# by; double refuses machines that have room.
HOST_RESERVE_BYTES = 2**30


@contextmanager
def fresh_directory(
    target: Path, what: str, *, size_bytes: int = 0, reserve_bytes: int = 0
) -> Iterator[Path]:
    """A temporary folder to fill, which becomes `target` on a normal exit; files in it must be flushed by who writes them.

    An existing `target` is replaced, and put back by `clean` when we die in between.

    Args:
        what: what is written, for messages.
        size_bytes: what it will hold; more than the free space is refused before anything is written.
        reserve_bytes: free space that must remain then.

    Raises:
        DiskFull: no space; nothing is left behind and `target` is as it was.
        StateError: any other failure to write.
    """
    temporary = target.with_name(f"{TEMPORARY}{target.name}")
    replaced = target.with_name(f"{REPLACED}{target.name}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if size_bytes and shutil.disk_usage(target.parent).free < size_bytes + reserve_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        yield temporary
        fsync_directory(temporary)
        if target.exists():
            shutil.rmtree(replaced, ignore_errors=True)
            target.rename(replaced)
        temporary.rename(target)
        fsync_directory(target.parent)
    except OSError as error:
        raise _disk_error(error, what, target.parent, size_bytes, reserve_bytes) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if target.exists():
            shutil.rmtree(replaced, ignore_errors=True)


def discard(path: Path) -> None:
    """Remove a folder. It loses its name first, so that a crash in between leaves nothing that looks like a damaged one."""
    gone = path.with_name(f"{DISCARDED}{path.name}")
    shutil.rmtree(gone, ignore_errors=True)
    with contextlib.suppress(OSError):  # as where its files cannot be removed: it stays, and is whole
        path.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def clean(directory: Path) -> list[str]:
    """Remove what a crash left in `directory`, and put back a folder that was caught being replaced; returns what was done."""
    done = []
    for path in directory.glob(f"{DISCARDED}*"):
        shutil.rmtree(path, ignore_errors=True)
    for path in sorted(directory.glob(f"{TEMPORARY}*")):
        shutil.rmtree(path, ignore_errors=True)
        done.append(f"removed unfinished {path.name.removeprefix(TEMPORARY)}")
    for path in sorted(directory.glob(f"{REPLACED}*")):
        target = path.with_name(path.name.removeprefix(REPLACED))
        if target.exists():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.rename(target)
            done.append(f"restored {target.name}")
    return done


def write_file(path: Path, data: bytes) -> None:
    """Write a small new file, flushed to the disk. Raises OSError, also when there is one already."""
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _disk_error(
    error: OSError, what: str, directory: Path, size_bytes: int, reserve_bytes: int
) -> LocalError:
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return StateError(
            f"cannot write {what} in {directory}", str(error), "check the folder and its permissions"
        )
    free = shutil.disk_usage(next(p for p in (directory, *directory.parents) if p.exists())).free
    need = f", {size_bytes / 2**20:.0f} MiB are needed" if size_bytes else ""
    kept = f", and {reserve_bytes / 2**20:.0f} MiB stay free for the buffer" if reserve_bytes else ""
    return DiskFull(
        f"no space for {what} in {directory}",
        f"{free / 2**20:.0f} MiB are free{need}{kept}",
        "free some space, or keep fewer checkpoints (checkpoint.keep)",
    )
