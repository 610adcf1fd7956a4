"""Landlock with an empty rule set: no file can be opened any more, and from newer kernels on no TCP port or abstract socket."""

import ctypes
import functools
import struct

_CREATE_RULESET, _RESTRICT_SELF = 444, 446  # the same numbers on every architecture
_ASK_VERSION = 1

# File rights by version of the interface (include/uapi/linux/landlock.h). All of them are handled and none is granted.
_NUM_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
_NUM_FILE_RIGHTS_NEWEST = 16
_NET_SINCE, _SCOPE_SINCE = 4, 6
_NET_RIGHTS, _SCOPES = 0b11, 0b11


def deny_all(libc: ctypes.CDLL) -> bool:
    """Restrict this process for good; False where the kernel has no landlock or has it switched off. Needs no_new_privs first."""
    ruleset_attributes = attributes(libc)
    if ruleset_attributes is None:
        return False
    ruleset = libc.syscall(_CREATE_RULESET, ruleset_attributes, ctypes.c_size_t(len(ruleset_attributes)), 0)
    # The descriptor is closed with the others when the worker ends.
    return bool(ruleset >= 0 and libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0)


@functools.cache
def attributes(libc: ctypes.CDLL) -> bytes | None:
    """All rights that this kernel's landlock knows, to be handled and none granted; None where it has no landlock."""
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION)
    if version < 1:
        return None
    fields = [(1 << _NUM_FILE_RIGHTS.get(version, _NUM_FILE_RIGHTS_NEWEST)) - 1]
    if version >= _NET_SINCE:
        fields.append(_NET_RIGHTS)
    if version >= _SCOPE_SINCE:
        fields.append(_SCOPES)
    return struct.pack(f"{len(fields)}Q", *fields)
