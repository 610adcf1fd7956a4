"""Measures executions: the CPU time of the slowest one, and the memory of the process after it warmed up."""

import ctypes
import gc
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.fuzz.finding import Finding

# What the project promises: no message holds a core longer.
CPU_S_MAX = 0.05
# How often a slow execution is repeated; the fastest counts. One run in a million meets the collector or a busy machine.
NUM_REPEATS = 5
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's

Result = TypeVar("Result")


@dataclass
class Meter:
    """The slowest execution so far, in seconds of this thread's CPU time and by the clock."""

    cpu_s_max: float = 0.0
    wall_s_max: float = 0.0
    cpu_s_sum: float = 0.0
    num_calls: int = 0
    clock: Callable[[], float] = time.thread_time  # another in tests

    def timed(self, work: Callable[[], Result]) -> Result:
        """The result of `work`, which may be called again when it took longer than any before.

        Raises:
            Finding: it holds a core for longer than CPU_S_MAX, every time.
        """
        result, cpu_s, wall_s = self._once(work)
        self.num_calls += 1
        self.cpu_s_sum += cpu_s
        if cpu_s > self.cpu_s_max or wall_s > self.wall_s_max:
            for _ in range(NUM_REPEATS - 1):
                _, cpu_again_s, wall_again_s = self._once(work)
                cpu_s, wall_s = min(cpu_s, cpu_again_s), min(wall_s, wall_again_s)
            self.cpu_s_max, self.wall_s_max = max(self.cpu_s_max, cpu_s), max(self.wall_s_max, wall_s)
            if cpu_s > CPU_S_MAX:
                raise Finding(f"{cpu_s * 1000:.1f} ms of CPU time, at most {CPU_S_MAX * 1000:.0f}")
        return result

    def _once(self, work: Callable[[], Result]) -> tuple[Result, float, float]:
        wall_before_s, cpu_before_s = time.perf_counter(), self.clock()
        result = work()
        return result, self.clock() - cpu_before_s, time.perf_counter() - wall_before_s


def resident_bytes() -> int:
    """The process's memory now, after collection, and after the C library gave back what it keeps for later.

    What it keeps follows the largest message so far (27 MB for a body of 4 MiB), not their number: no growth, and it hides none.
    """
    gc.collect()
    if _trim is not None:
        _trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


METER = Meter()
"""The one of this process: targets report to it."""
