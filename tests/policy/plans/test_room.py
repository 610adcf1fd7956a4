"""Room: what NVML and the kernel tell, and what becomes of it when they do not."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from swarmd.policy.plans.room import Holder, Room, look, num_oom_kills

GIB = 2**30


class NVMLError(Exception):
    pass


class FakeNvml:
    """`pynvml` of a machine with two cards; `error` is raised by every question about one."""

    NVMLError = NVMLError

    def __init__(self, error: str = "") -> None:
        self.error, self.asked, self.is_open = error, "", False

    def nvmlInit(self) -> None:
        self.is_open = True

    def nvmlShutdown(self) -> None:
        self.is_open = False

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        self.asked = f"index {index}"
        return self.asked

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        self.asked = uuid
        return uuid

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:
        if self.error:
            raise NVMLError(self.error)
        return SimpleNamespace(total=12 * GIB, free=7 * GIB, used=5 * GIB)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        found = [(11, GIB), (12, 4 * GIB), (13, None)]
        return [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in found]


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "12").mkdir()
    (tmp_path / "12" / "comm").write_text("python3\n")
    (tmp_path / "meminfo").write_text(
        "MemTotal:  16000 kB\nMemFree: 100 kB\nMemAvailable:  9000 kB\nHugePages: 0\n"
    )
    (tmp_path / "vmstat").write_text("pgfault 7\noom_kill 3\n")
    return tmp_path


def test_a_gpu_tells_its_room_and_who_is_in_it(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nvml = FakeNvml()
    room = look("cuda:1", nvml=nvml, proc=proc)
    assert (room.total_bytes, room.free_bytes, nvml.asked) == (12 * GIB, 7 * GIB, "index 1")
    assert room.holders == (Holder(12, "python3", 4 * GIB), Holder(11, "?", GIB), Holder(13, "?", None))
    assert not nvml.is_open


@pytest.mark.parametrize(
    ("visible", "asked"),
    [("3", "index 3"), ("GPU-7a, GPU-7b", "GPU-7a"), ("", "index 0"), ("1,0", "index 1")],
)
def test_the_first_cuda_device_is_the_first_that_is_visible(
    visible: str, asked: str, proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    nvml = FakeNvml()
    look("cuda", nvml=nvml, proc=proc)
    assert nvml.asked == asked


def test_a_driver_that_does_not_answer_is_no_error(proc: Path) -> None:
    nvml = FakeNvml("Driver/library version mismatch")
    room = look("cuda", nvml=nvml, proc=proc)
    assert (room.free_bytes, room.holders) == (None, ())
    assert "version mismatch" in room.why
    assert not nvml.is_open


def test_without_nvml_the_reader_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    room = look("cuda")
    assert (room.total_bytes, "nvidia-ml-py" in room.why) == (None, True)


def test_a_cpus_room_is_what_the_kernel_would_give(proc: Path) -> None:
    assert look("cpu", proc=proc, cgroup=proc / "none") == Room(16000 * 1024, 9000 * 1024)


@pytest.mark.parametrize(
    ("limit", "used", "cached", "free"),
    [("max", 0, 0, 9000 * 1024), ("4096000", 1024000, 24000, 3096000), ("1024", 4096, 0, 0)],
)
def test_a_containers_limit_counts(proc: Path, limit: str, used: int, cached: int, free: int) -> None:
    group = proc / "group"
    group.mkdir()
    (group / "memory.max").write_text(f"{limit}\n")
    (group / "memory.current").write_text(f"{used}\n")
    (group / "memory.stat").write_text(f"anon 5\nfile {cached}\n")
    assert look("cpu", proc=proc, cgroup=group).free_bytes == free


def test_a_kernel_that_does_not_tell_leaves_it_open(tmp_path: Path) -> None:
    room = look("mps", proc=tmp_path, cgroup=tmp_path)
    assert room.total_bytes is not None
    assert (room.free_bytes, bool(room.why)) == (None, True)


def test_the_kernels_count_of_kills(proc: Path, tmp_path: Path) -> None:
    assert num_oom_kills(proc) == 3
    assert num_oom_kills(tmp_path / "none") is None
