"""What a locked-down process can still do: nothing that leaves it. Each attempt runs in a process of its own."""

import signal
import struct
import subprocess
import sys

import pytest

from swarmd.questions.sandbox import CONTAINED, Step, describe
from swarmd.questions.seccomp import filter_program

_PRELUDE = """
import ctypes, mmap, os, socket, sys, threading
from swarmd.questions.sandbox import lockdown
libc = ctypes.CDLL(None, use_errno=True)
steps = lockdown("best-effort", os.getppid())
"""


def locked_down(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process after its lockdown."""
    return subprocess.run(
        [sys.executable, "-c", _PRELUDE + code], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def steps() -> Step:
    return Step(int(locked_down("print(int(steps))").stdout))


@pytest.fixture
def _contained(steps: Step) -> None:
    if steps & CONTAINED != CONTAINED:
        pytest.skip(describe(steps, "best-effort"))


@pytest.mark.usefixtures("_contained")
@pytest.mark.parametrize(
    "code",
    [
        "open('/etc/hostname')",
        "open('/tmp/marker', 'w')",
        "os.listdir('/')",
        "os.open('/proc/self/mem', os.O_RDWR)",
        "os.stat('/')",
        "mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)",
    ],
)
def test_files_and_executable_memory_are_denied(code: str) -> None:
    ran = locked_down(f"try:\n  {code}\nexcept PermissionError:\n  print('denied')")
    assert (ran.returncode, ran.stdout) == (0, "denied\n"), ran.stderr


@pytest.mark.usefixtures("_contained")
@pytest.mark.parametrize(
    "code",
    [
        "socket.socket(socket.AF_INET)",
        "socket.socket(socket.AF_UNIX)",
        "socket.socketpair()",
        "os.fork()",
        "os.execv('/bin/true', ['true'])",
        "os.posix_spawn('/bin/true', ['true'], {})",
        "threading.Thread(target=print).start()",
        "os.kill(os.getppid(), 0)",
        "os.kill(os.getpid(), 0)",
        "os.setuid(0)",
        "os.unlink('/tmp/marker')",
        "os.chdir('/')",
        "os.memfd_create('x')",
        "os.dup2(1, 9)",
        "libc.ptrace(16, os.getppid(), 0, 0)",
        "libc.prctl(38, 1, 0, 0, 0)",
        "libc.syscall(425, 1, 0)  # io_uring_setup",
        "libc.syscall(321, 0, 0, 0)  # bpf, or nothing",
        "libc.syscall(0x40000000 + 39)  # getpid of the x32 table",
    ],
)
def test_everything_else_is_the_end(code: str) -> None:
    ran = locked_down(f"{code}\nprint('escaped', flush=True)")
    assert (ran.returncode, ran.stdout) == (-signal.SIGSYS, ""), ran.stderr


@pytest.mark.usefixtures("_contained")
def test_memory_is_bounded() -> None:
    ran = locked_down("try:\n  bytearray(1 << 30)\nexcept MemoryError:\n  print('denied')")
    assert ran.stdout == "denied\n"


def test_limits_hold_where_the_kernel_offers_no_more(steps: Step) -> None:
    assert Step.LIMITS in steps


def test_a_worker_without_its_parent_ends() -> None:
    code = "from swarmd.questions.sandbox import lockdown\nlockdown('best-effort', 1 << 22)\nprint('alive', flush=True)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "")


@pytest.mark.parametrize(
    ("steps", "mode", "line"),
    [
        (CONTAINED, "best-effort", "full: unprivileged user, limits, landlock, seccomp"),
        (
            CONTAINED & ~Step.SECCOMP,
            "best-effort",
            "partial, this machine lacks seccomp: only reviewed scorers, which run no code",
        ),
        (Step(0), "off", "off: only reviewed scorers, limits on memory and CPU"),
    ],
)
def test_one_line_says_what_holds(steps: Step, mode: str, line: str) -> None:
    assert describe(steps, mode) == line  # type: ignore[arg-type]


def run_filter(program: bytes, machine: int, number: int, third_argument: int = 0) -> int:
    """What the kernel's filter machine would answer: the four instructions that we use."""
    data = struct.pack("<IIQ6Q", number, machine, 0, 0, 0, third_argument, 0, 0, 0)
    instructions = list(struct.iter_unpack("<HBBI", program))
    position, accumulator = 0, 0
    while True:
        code, if_true, if_false, operand = instructions[position]
        position += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, operand)
        elif code == 0x15:
            position += if_true if accumulator == operand else if_false
        elif code == 0x45:
            position += if_true if accumulator & operand else if_false
        else:
            return int(operand)


_ALLOW, _KILL, _EPERM, _EACCES = 0x7FFF0000, 0x80000000, 0x50001, 0x5000D


@pytest.mark.parametrize(
    ("machine", "arch", "calls"),
    [
        ("x86_64", 0xC000003E, {"read": 0, "write": 1, "mmap": 9, "openat": 257, "socket": 41, "execve": 59}),
        (
            "aarch64",
            0xC00000B7,
            {"read": 63, "write": 64, "mmap": 222, "openat": 56, "socket": 198, "execve": 221},
        ),
    ],
)
def test_the_filter_of_each_machine(machine: str, arch: int, calls: dict[str, int]) -> None:
    program = filter_program(machine)
    assert program is not None
    answers = {name: run_filter(program, arch, number) for name, number in calls.items()}
    assert answers == {
        "read": _ALLOW,
        "write": _ALLOW,
        "mmap": _ALLOW,
        "openat": _EACCES,
        "socket": _KILL,
        "execve": _KILL,
    }
    assert run_filter(program, arch, calls["mmap"], third_argument=7) == _EPERM
    assert run_filter(program, arch ^ 0x80000000, calls["read"]) == _KILL


def test_no_filter_for_an_unknown_machine() -> None:
    assert filter_program("riscv64") is None
