"""The system calls a scoring worker may still make, as a seccomp filter program for x86_64 and aarch64.

The filter has three answers:

- allowed: reading and writing open descriptors, memory that is not executable, time, leaving;
- EACCES: looking at files, so that a late import fails like a missing module;
- death by SIGSYS: everything else, such as sockets, processes, signals, ptrace, io_uring.

No honest scoring gets to the third, so SIGSYS is evidence against the text.
"""

import ctypes
import errno
import functools
import struct
import sys

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# From the kernel's arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h. None: not on that machine.
_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "lseek": (8, 62),
    "fstat": (5, 80),
    "munmap": (11, 215),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    "sched_yield": (24, 124),
    "futex": (202, 98),
    "rseq": (334, 293),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "getrandom": (318, 278),
    "getrusage": (98, 165),
    "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115),
    "gettimeofday": (96, 169),
    "poll": (7, None),
    "ppoll": (271, 73),
    "exit": (60, 93),
    "exit_group": (231, 94),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "open": (2, None),
    "openat": (257, 56),
    "stat": (4, None),
    "lstat": (6, None),
    "newfstatat": (262, 79),
    "statx": (332, 291),
    "access": (21, None),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "getcwd": (79, 17),
    "getdents64": (217, 61),
    "readlink": (89, None),
    "readlinkat": (267, 78),
    "ioctl": (16, 29),
    "fcntl": (72, 25),
    "sysinfo": (99, 179),
}
_WITHOUT_EXEC = ("mmap", "mprotect")
_DENIED_FILES = (
    "open",
    "openat",
    "stat",
    "lstat",
    "newfstatat",
    "statx",
    "access",
    "faccessat",
    "faccessat2",
)
_DENIED_OTHER = ("getcwd", "getdents64", "readlink", "readlinkat", "ioctl", "fcntl", "sysinfo")
_DENIED = frozenset({*_DENIED_FILES, *_DENIED_OTHER})

_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_KILL_PROCESS, _ERRNO, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_LOAD, _JUMP_EQUAL, _JUMP_BITS, _RETURN = 0x20, 0x15, 0x45, 0x06
_OFFSET_NUMBER, _OFFSET_ARCH, _OFFSET_THIRD_ARGUMENT = 0, 4, 32
_PROT_EXEC = 4


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


@functools.cache
def filter_program(machine: str) -> bytes | None:
    """The BPF program for this machine, 8 bytes an instruction; None where we have no table.

    The 32-bit entry points of an x86_64 kernel have another architecture value or a bit set in the number: both end in SIGSYS.
    """
    if machine not in _AUDIT_ARCH or sys.byteorder != "little":
        return None
    column = list(_AUDIT_ARCH).index(machine)
    program = [
        _instruction(_LOAD, _OFFSET_ARCH),
        _instruction(_JUMP_EQUAL, _AUDIT_ARCH[machine], 1, 0),
        _instruction(_RETURN, _KILL_PROCESS),
        _instruction(_LOAD, _OFFSET_NUMBER),
    ]
    for name, numbers in _NUMBERS.items():
        number = numbers[column]
        if number is None:
            continue
        if name in _WITHOUT_EXEC:
            program += [
                _instruction(_JUMP_EQUAL, number, 0, 4),
                _instruction(_LOAD, _OFFSET_THIRD_ARGUMENT),
                _instruction(_JUMP_BITS, _PROT_EXEC, 0, 1),
                _instruction(_RETURN, _ERRNO | errno.EPERM),
                _instruction(_RETURN, _ALLOW),
            ]
        else:
            answer = _ERRNO | errno.EACCES if name in _DENIED else _ALLOW
            program += [_instruction(_JUMP_EQUAL, number, 0, 1), _instruction(_RETURN, answer)]
    program.append(_instruction(_RETURN, _KILL_PROCESS))
    return b"".join(program)


def install(libc: ctypes.CDLL, program: bytes) -> bool:
    """Put the filter on this thread and its children for good; False when the kernel refuses. Needs no_new_privs first."""
    buffer = ctypes.create_string_buffer(program, len(program))
    described = _FilterProgram(len(program) // 8, ctypes.addressof(buffer))
    return bool(libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(described), 0, 0) == 0)


def _instruction(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, operand)
