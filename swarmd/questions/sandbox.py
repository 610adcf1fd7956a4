"""Take from a forked worker everything it does not need, step by step, and say which steps this machine allowed.

Rlimits alone contain neither files nor sockets. Landlock without seccomp lets a pathname socket through. With all of them nothing
got out (21 payloads, as root and as an ordinary user). A lockdown cannot be undone, so it is for a process that will be killed.
"""

import ctypes
import enum
import functools
import os
import platform
import resource
import signal
import sys
from typing import Literal

from swarmd.questions import landlock, seccomp

SandboxMode = Literal["best-effort", "require", "off"]

_NOBODY = 65534
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38

# Bytes of address space. A zygote maps 60 to 200 MB (numpy, sympy).
MEMORY_BYTES_MAX = 512 << 20
# CPU seconds: a backstop behind the deadline, which kills from outside.
CPU_S_MAX = 30
_FILES_MAX = 64


class Step(enum.IntFlag):
    """One step of the lockdown; a worker reports those that took effect as one byte."""

    NOT_ROOT = 1
    LIMITS = 2
    DIES_WITH_PARENT = 4
    NO_NEW_PRIVS = 8
    LANDLOCK = 16
    SECCOMP = 32


CONTAINED = Step.NOT_ROOT | Step.LIMITS | Step.NO_NEW_PRIVS | Step.LANDLOCK | Step.SECCOMP
"""With these, a worker under foreign control could reach nothing but its own socket."""


def prepare() -> None:
    """Look up and build in the zygote what every worker's lockdown needs: it is half of what a lockdown costs."""
    libc = _libc()
    for name in ("prctl", "syscall"):
        getattr(libc, name)  # ctypes keeps the function with the library
    landlock.attributes(libc)
    seccomp.filter_program(platform.machine())


def lockdown(mode: SandboxMode, parent_pid: int, *, with_seccomp: bool = True) -> Step:
    """Lock this process down; `off` sets only the limits and the death signal.

    `parent_pid` is the zygote: a worker whose parent is already gone ends here. `with_seccomp` is false where the filter was found
    to stop our own scorers.
    """
    libc = _libc()
    on_linux = sys.platform == "linux"
    steps = Step(0)
    if mode != "off" and _leave_root():
        steps |= Step.NOT_ROOT
    if _set_limits():
        steps |= Step.LIMITS
    if on_linux:
        # After the change of user, which clears it.
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0:
            steps |= Step.DIES_WITH_PARENT
        if os.getppid() != parent_pid:
            os._exit(0)
    if mode == "off" or not on_linux:
        return steps
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
        steps |= Step.NO_NEW_PRIVS
        if landlock.deny_all(libc):
            steps |= Step.LANDLOCK
        program = seccomp.filter_program(platform.machine()) if with_seccomp else None
        if program is not None and seccomp.install(libc, program):
            steps |= Step.SECCOMP
    return steps


def describe(steps: Step, mode: SandboxMode, refused: str = "") -> str:
    """One line for the operator: what contains the workers, and what that means. `refused`: what seccomp, left out, did to whom."""
    if mode == "off":
        return "off: only reviewed scorers, limits on memory and CPU"
    if steps & CONTAINED == CONTAINED:
        return "full: unprivileged user, limits, landlock, seccomp"
    reasons = []
    if lacking := missing(steps | Step.SECCOMP if refused else steps):
        reasons.append(f"this machine lacks {', '.join(lacking)}")
    if refused:
        reasons.append(f"without seccomp, which stopped our own scorers ({refused})")
    return f"partial, {'; '.join(reasons)}: only reviewed scorers, which run no code"


def missing(steps: Step) -> list[str]:
    """The steps that would contain a worker and did not take effect."""
    return [step.name.lower() for step in Step if step in CONTAINED & ~steps and step.name]


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _leave_root() -> bool:
    if os.geteuid() != 0:
        return True
    try:
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    except PermissionError:  # root of a container without the capability
        return False
    return True


def _set_limits() -> bool:
    wanted = {
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": 0,
        "RLIMIT_NOFILE": _FILES_MAX,
        "RLIMIT_NPROC": 0,
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_MSGQUEUE": 0,
        "RLIMIT_AS": MEMORY_BYTES_MAX,
        "RLIMIT_CPU": CPU_S_MAX,
    }
    complete = True
    for name, value in wanted.items():
        kind = getattr(resource, name, None)
        if kind is None:
            continue
        try:
            # One second between the soft and the hard CPU limit lets SIGXCPU come before SIGKILL: the reason is then known.
            resource.setrlimit(kind, (value, value + 1 if name == "RLIMIT_CPU" else value))
        except (ValueError, OSError):  # macOS refuses some below what is in use
            complete = False
    return complete
