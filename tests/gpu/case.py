"""What every test here starts from: a skip with its reason, a device left clean, and figures that are printed beside the test."""

import gc
import importlib.util
import os
import unittest

import torch

# The same tests on the CPU at sizes of a toy: shows that they run and can fail, and nothing about a GPU.
REHEARSAL = os.environ.get("SWARMD_GPU_REHEARSAL") == "1"
DEVICE = "cpu" if REHEARSAL else "cuda"


def missing(*packages: str) -> list[str]:
    """Those that cannot be imported here."""
    return [package for package in packages if not _is_installed(package)]


def no_cuda() -> str:
    """Why nothing here can run; empty where it can."""
    if REHEARSAL or torch.cuda.is_available():
        return ""
    built_for = torch.version.cuda or "the CPU only"
    return f"torch {torch.__version__} (built for {built_for}) finds no CUDA device"


class GpuCase(unittest.TestCase):
    """A test that needs CUDA, and the packages in `needs`."""

    needs: tuple[str, ...] = ()
    needs_cuda = False  # True where a rehearsal on the CPU would mean nothing

    def setUp(self) -> None:
        self.figures: list[str] = []
        if reason := no_cuda():
            self.skipTest(reason)
        if REHEARSAL and self.needs_cuda:
            self.skipTest("a rehearsal on the CPU cannot show this")
        if lacking := missing(*self.needs):
            self.skipTest(f"not installed: {', '.join(lacking)}")
        _clean()
        self.addCleanup(_clean)

    def report(self, text: str) -> None:
        """Show a figure beside the test's name."""
        self.figures.append(text)
        print(f"      {text}", flush=True)


def synchronise() -> None:
    """Wait for the device: a clock read before that measures nothing."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def peak_bytes() -> int:
    """Most memory that tensors have held on the device since the test began."""
    return torch.cuda.max_memory_allocated() if DEVICE == "cuda" else 0


def _clean() -> None:
    gc.collect()
    if DEVICE == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False
