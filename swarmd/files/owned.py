"""Folders and files that belong to this user alone; whatever another user could have planted is refused before it is opened.

Who can write to a folder can put a link in place of a file, and who can write to its parent can put another folder in its place.
So a folder counts as ours when nobody else can change it or any folder on the way to it, links on the way included. Within such a
folder a look and a later use cannot be told apart by others, and no file in it needs more than a look.
"""

import errno
import os
import pwd
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from swarmd.errors import StateError
from swarmd.files.failing import disk_error

# Linux follows 40 links in one path (path_resolution(7)).
_LINKS_MAX = 40
_NEW = 0o700


def make_own(directory: Path) -> None:
    """Make `directory` and its missing parents for this user alone, and see that it is ours.

    Raises:
        StateError: it cannot be made, or `require_own` refuses it. DiskFull: no space for it.
    """
    require_own(directory)  # before anything is made below a folder of somebody else's
    missing = [path for path in (directory, *directory.parents) if not os.path.lexists(path)]
    try:
        for path in reversed(missing):
            path.mkdir(mode=_NEW, exist_ok=True)
        directory.mkdir(mode=_NEW, exist_ok=True)  # a file in its place is told by its own name
    except OSError as error:
        raise disk_error(error, f"cannot make {directory}", "choose another folder") from None
    require_own(directory)


def require_own(directory: Path, *, owner: int | None = None) -> bool:
    """See that nobody else can change `directory` or the way to it; nothing is opened. Returns whether it is there.

    Args:
        owner: the user whose it is to be; we, when None.

    Raises:
        StateError: naming the folder, its owner, and what to do.
    """
    try:
        found = _require_way(directory)
        if found is not None:
            _require_ours(directory, found, os.geteuid() if owner is None else owner)
    except OSError as error:
        raise _refused(directory, str(error)) from None
    return found is not None


def require_own_content(
    directory: Path, *, unread: str = "", linked: str = "", owner: int | None = None
) -> None:
    """See that `directory`, if it is there, is ours and holds nothing but plain files and folders of ours; nothing is opened.

    Args:
        unread: the name of folders in it, at any depth, whose content is not looked at.
        linked: a file in it that we only read, and that may be a link of a trusted user's.
        owner: the user whose it is to be; we, when None.

    Raises:
        StateError: naming the folder or file, its owner, and what to do.
    """
    if not require_own(directory, owner=owner):
        return
    try:
        for path in _content(directory, unread):
            if not (path.name == linked and _is_trusted_link(path)):
                _require_plain(path, os.geteuid() if owner is None else owner)
    except OSError as error:
        raise _refused(directory, str(error)) from None


def open_own(path: Path, flags: int, mode: int = 0o600) -> int:
    """A descriptor of a plain file of ours, in a folder of ours. A link is not followed, and nothing is changed before the look.

    Raises:
        StateError: it is a link, no plain file, or another user's. OSError: as `os.open`.
    """
    assert not flags & os.O_TRUNC, "the file would be emptied before it is looked at"
    try:
        handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise _refused(path, "it is a link") from None
        raise
    try:
        reason = _not_plain(os.fstat(handle), os.geteuid())
        if reason or stat.S_ISDIR(os.fstat(handle).st_mode):
            raise _refused(path, reason or "it is a folder")
    except BaseException:
        os.close(handle)
        raise
    return handle


def _require_way(directory: Path) -> os.stat_result | None:
    """Follow the path name by name as the kernel does, and refuse the first step that another user could redirect.

    Returns the folder at its end; None where a name on the way does not exist yet.
    """
    at, num_links = Path("/"), 0
    names = list(reversed(directory.absolute().parts[1:]))
    found = _look(at)
    while names:
        _require_unswappable(directory, at, found)
        if (name := names.pop()) == "..":
            at, found = at.parent, _look(at.parent)
            continue
        try:
            entry = _look(at / name)
        except FileNotFoundError:
            return None
        if entry.st_uid not in _trusted():
            if not names and not stat.S_ISLNK(entry.st_mode):
                return entry  # the folder itself: its owner is told apart
            raise _refused(directory, f"{at / name} belongs to {_name(entry.st_uid)}, who can replace it")
        if stat.S_ISLNK(entry.st_mode):
            num_links += 1
            if num_links > _LINKS_MAX:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(directory))
            target = os.readlink(at / name)
            names.extend(reversed([part for part in target.split("/") if part not in ("", ".")]))
            if target.startswith("/"):
                at, found = Path("/"), _look(Path("/"))
        else:
            at, found = at / name, entry
    return found


def _require_unswappable(directory: Path, parent: Path, found: os.stat_result) -> None:
    """Names in `parent` are changed by trusted users only; where it is sticky, a trusted user's entry is not either."""
    if not stat.S_ISDIR(found.st_mode):
        raise _refused(directory, f"{parent} is no folder")
    if _others_write(found) and not found.st_mode & stat.S_ISVTX:
        raise _refused(
            directory, f"{parent} on its way can be written by others", f"chmod go-w {parent}, or choose"
        )


def _require_ours(directory: Path, found: os.stat_result, wanted: int) -> None:
    if not stat.S_ISDIR(found.st_mode):
        raise _refused(directory, "it is no folder")
    if found.st_uid != wanted:
        raise _refused(
            directory,
            f"it belongs to {_name(found.st_uid)}, and this is {_name(wanted)}",
            "run as its owner (sudo -u), or choose",
        )
    if _others_write(found):
        raise _refused(directory, "it can be written by others", f"chmod go-w {directory}, or choose")


def _content(directory: Path, unread: str) -> Iterator[Path]:
    try:
        with os.scandir(directory) as entries:
            found = list(entries)
    except FileNotFoundError:
        return  # a running node of ours has just removed it
    for entry in found:
        yield Path(entry.path)
        if entry.is_dir(follow_symlinks=False) and entry.name != unread:
            yield from _content(Path(entry.path), unread)


def _require_plain(path: Path, owner: int) -> None:
    """Raises StateError for what we would not have made ourselves."""
    try:
        found = _look(path)
    except FileNotFoundError:
        return  # a running node of ours has just removed it
    reason = _not_plain(found, owner)
    if not reason and _others_write(found) and not stat.S_ISSOCK(found.st_mode):
        reason = f"it can be written by others (mode {stat.S_IMODE(found.st_mode):04o})"
    if reason:
        raise _refused(path, reason, "move it away; if you did not put it there, ask who did, or choose")


def _is_trusted_link(path: Path) -> bool:
    found = _look(path)
    return stat.S_ISLNK(found.st_mode) and found.st_uid in _trusted()


def _not_plain(found: os.stat_result, owner: int) -> str:
    """The reason against a file or folder within a folder of ours; empty where there is none."""
    if stat.S_ISLNK(found.st_mode):
        return "it is a link"
    if found.st_uid not in (owner, 0):
        return f"it belongs to {_name(found.st_uid)} and not to {_name(owner)}"
    if stat.S_ISREG(found.st_mode):
        if found.st_nlink > 1:
            return "it has a second name elsewhere (a hard link)"
    elif not stat.S_ISDIR(found.st_mode) and not stat.S_ISSOCK(found.st_mode):
        return "it is neither a file nor a folder"
    return ""


def _look(path: Path) -> os.stat_result:
    return os.lstat(path)


def _trusted() -> frozenset[int]:
    """Who may own a folder on the way: we, the administrator, and whoever owns this program, who can do all that we can.

    Whoever owns `/` is the administrator, also within a user namespace, where that is not user 0.
    """
    return frozenset({0, os.geteuid(), _look(Path("/")).st_uid, _owner_of_program()})


@cache
def _owner_of_program() -> int:
    return os.stat(__file__).st_uid


def _others_write(found: os.stat_result) -> bool:
    """A group of the same name as its only user (Linux makes one with each user) is that user."""
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and found.st_gid not in _own_groups()


@cache
def _own_groups() -> frozenset[int]:
    import grp

    try:
        user = pwd.getpwuid(os.geteuid())
        group = grp.getgrgid(user.pw_gid)
    except KeyError:
        return frozenset()
    alone = group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
    return frozenset({group.gr_gid}) if alone else frozenset()


def _name(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def _refused(path: Path, why: str, fix: str = "choose") -> StateError:
    return StateError(f"cannot use {path}", why, f"{fix} another folder (for a node: --data-dir)")
