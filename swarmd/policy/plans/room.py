"""How much memory a device has free, and who holds the rest: NVML for a GPU, /proc for the host. Imports no torch, never raises."""

import importlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Holder:
    """Another process on the GPU; `size_bytes` is None where the driver does not tell (containers, Windows)."""

    pid: int
    name: str
    size_bytes: int | None


@dataclass(frozen=True)
class Room:
    """`total_bytes` and `free_bytes` are None where nobody could be asked; `why` then says so."""

    total_bytes: int | None
    free_bytes: int | None
    holders: tuple[Holder, ...] = ()
    why: str = ""


def look(
    device: str, *, nvml: ModuleType | None = None, proc: Path = Path("/proc"), cgroup: Path = _CGROUP
) -> Room:
    """The room on `cpu`, `mps`, `cuda` or `cuda:N`.

    `nvml` is the module `pynvml`. In `proc` and `cgroup` the kernel tells of the machine's memory and of a container's limit.
    """
    if device.startswith("cuda"):
        return _gpu_room(int(device.partition(":")[2] or 0), nvml, os.environ, proc)
    return _host_room(proc, cgroup)


def num_oom_kills(proc: Path = Path("/proc")) -> int | None:
    """How many processes the kernel has killed for lack of memory since it started; None where it does not tell."""
    return _kernel_numbers(proc / "vmstat").get("oom_kill")


def _host_room(proc: Path, cgroup: Path) -> Room:
    """The memory that the kernel would give without swapping, within a container's limit."""
    told = _kernel_numbers(proc / "meminfo")
    if "MemAvailable" not in told:
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return Room(pages, None, why="this kernel does not tell how much memory is free")
    total, free = told.get("MemTotal", 0) * 1024, told["MemAvailable"] * 1024
    limit = _number(cgroup / "memory.max")
    if limit is not None:
        cached = _kernel_numbers(cgroup / "memory.stat").get("file", 0)  # given back under pressure
        used = max((_number(cgroup / "memory.current") or 0) - cached, 0)
        total, free = min(total, limit), min(free, max(limit - used, 0))
    return Room(total, free)


def _gpu_room(index: int, nvml: ModuleType | None, environ: Mapping[str, str], proc: Path) -> Room:
    try:
        with nvml_card(index, nvml, environ) as (found, card):
            memory = found.nvmlDeviceGetMemoryInfo(card)
            processes = found.nvmlDeviceGetComputeRunningProcesses(card)
            holders = tuple(Holder(p.pid, _name(p.pid, proc), p.usedGpuMemory or None) for p in processes)
    except CannotAsk as error:
        return Room(None, None, why=str(error))
    return Room(
        int(memory.total),
        int(memory.free),
        tuple(sorted(holders, key=lambda holder: -(holder.size_bytes or 0))),
    )


class CannotAsk(Exception):
    """NVML is not there, or does not answer. The text says which."""


@contextmanager
def nvml_card(
    index: int, nvml: ModuleType | None = None, environ: Mapping[str, str] = os.environ
) -> Iterator[tuple[ModuleType, object]]:
    """NVML, and the card that CUDA counts as `index`, for the block. Raises CannotAsk, also for what NVML refuses within it."""
    try:
        nvml = nvml or importlib.import_module("pynvml")
    except ImportError as error:
        raise CannotAsk("the GPU cannot be asked without nvidia-ml-py: pip install nvidia-ml-py") from error
    try:
        nvml.nvmlInit()
        try:
            yield nvml, _handle(nvml, index, environ.get("CUDA_VISIBLE_DEVICES"))
        finally:
            nvml.nvmlShutdown()
    except nvml.NVMLError as error:
        raise CannotAsk(f"NVML does not tell the GPU's memory: {error}") from error


def _handle(nvml: ModuleType, index: int, visible: str | None) -> object:
    """CUDA counts the devices that it was left, NVML all of them."""
    names = [part.strip() for part in visible.split(",") if part.strip()] if visible else []
    if index >= len(names):
        return nvml.nvmlDeviceGetHandleByIndex(index)
    if names[index].isdigit():
        return nvml.nvmlDeviceGetHandleByIndex(int(names[index]))
    return nvml.nvmlDeviceGetHandleByUUID(names[index])


def _name(pid: int, proc: Path) -> str:
    try:
        return (proc / str(pid) / "comm").read_text().strip()
    except OSError:
        return "?"


def _number(path: Path) -> int | None:
    """A control group's number; None for `max`, and where there is no such file."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _kernel_numbers(path: Path) -> dict[str, int]:
    """Lines such as `MemTotal:  24000 kB` or `oom_kill 0`."""
    try:
        lines = [line.replace(":", " ").split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {line[0]: int(line[1]) for line in lines if len(line) > 1 and line[1].isdigit()}
