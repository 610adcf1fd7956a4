"""Which errors end a process: those that leave it without its device, and no others."""

import subprocess
import sys

import pytest
import torch

from swarmd.errors import OutOfMemory, StateError
from swarmd.policy.faults import loses_device
from swarmd.policy.memory import is_out_of_memory
from swarmd.policy.service import PolicyService
from swarmd.policy.update.rank import Rank

LOST = [
    torch.AcceleratorError("CUDA error: an illegal memory access was encountered"),
    RuntimeError("CUDA error: device-side assert triggered\nCUDA kernel errors might be reported later"),
    RuntimeError("CUDA error: unspecified launch failure"),
    RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
    RuntimeError("NCCL error in: ProcessGroupNCCL.cpp:123, unhandled cuda error"),
]
NO_ROOM = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    torch.AcceleratorError("CUDA error: out of memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62"),
    MemoryError("rank 1 of the update"),
]
OTHER = [
    RuntimeError("shape '[2, 3]' is invalid"),
    ValueError("CUDA error"),
    StateError("damaged"),
    KeyError("x"),
]


@pytest.mark.parametrize("error", LOST, ids=str)
def test_a_lost_device_ends_the_process(error: Exception) -> None:
    assert (loses_device(error), is_out_of_memory(error)) == (True, False)
    assert PolicyService.ruined_by(error)
    assert Rank.ruined_by(error)


@pytest.mark.parametrize("error", NO_ROOM, ids=str)
def test_a_lack_of_memory_is_a_matter_for_the_plan(error: Exception) -> None:
    assert (loses_device(error), is_out_of_memory(error)) == (False, True)


@pytest.mark.parametrize("error", OTHER, ids=str)
def test_other_errors_are_answered(error: Exception) -> None:
    assert (loses_device(error), is_out_of_memory(error)) == (False, False)


@pytest.mark.parametrize(("kind", "code"), [(OutOfMemory, 14), (StateError, 70)])
def test_the_exit_status_says_whether_memory_ran_out(kind: type[Exception], code: int) -> None:
    text = (
        "from swarmd.errors import *; from swarmd.processes.ends import end_process\n"
        f"end_process({kind.__name__}('vLLM failed', 'for a reason'))"
    )
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert ended.returncode == code
    assert "vLLM failed" in ended.stderr
