"""Faults of the disk and the clock for a real node, by a small C library that is preloaded (`shim.c`), never built in.

shim = Shim(tmp_path, node.data_dir.root)
swarm.environment_of = {0: shim.environment}
with shim.fault(fails_with=errno.EROFS): ...
"""

import ctypes
import mmap
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntFlag
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
COMPILER = shutil.which("cc") or shutil.which("gcc")


class Call(IntFlag):
    """Calls at which a process can be killed: `enum call` of the library."""

    OPEN, WRITE, SYNC, RENAME, UNLINK, MKDIR = 1, 2, 4, 8, 16, 32


class Control(ctypes.Structure):
    """`struct control` of the library."""

    clock_ns: int
    fails_with: int
    short_writes: int
    kill_calls: int
    kill_at: int
    num_calls: int
    num_faults: int
    _fields_ = (
        ("clock_ns", ctypes.c_int64),
        *(
            (name, ctypes.c_int32)
            for name in ("fails_with", "short_writes", "kill_calls", "kill_at", "num_calls", "num_faults")
        ),
    )


class Shim:
    """The faults of one node. `environment` is what its processes are started with.

    Args:
        folder: for the library and the control file; outside `root`.
        root: the data directory, below which calls meet faults.
    """

    def __init__(self, folder: Path, root: Path) -> None:
        assert COMPILER is not None, "there is no C compiler"
        folder.mkdir(parents=True, exist_ok=True)
        library, control = folder / "shim.so", folder / f"control-{root.name}"
        if not library.exists():
            subprocess.run(
                [COMPILER, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"], check=True
            )
        control.write_bytes(bytes(ctypes.sizeof(Control)))
        with control.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.control = Control.from_buffer(self._map)
        self.environment = {
            "LD_PRELOAD": str(library),
            "SHIM_CONTROL": str(control),
            "SHIM_ROOT": str(root),
        }

    @contextmanager
    def fault(self, *, fails_with: int = 0, short_writes: bool = False) -> Iterator[None]:
        """Calls that change something below the root fail, or writes are cut, while the block lasts."""
        self.control.num_faults = 0
        self.control.fails_with, self.control.short_writes = fails_with, short_writes
        try:
            yield
        finally:
            self.control.fails_with = self.control.short_writes = 0

    def kill_at(self, calls: Call, number: int) -> None:
        """SIGKILL for the process that makes the `number`-th of these calls from now on; 0 calls it off."""
        self.control.kill_at = 0
        self.control.num_calls, self.control.kill_calls = 0, int(calls)
        self.control.kill_at = number

    @property
    def has_killed(self) -> bool:
        return 0 < self.control.kill_at <= self.control.num_calls
