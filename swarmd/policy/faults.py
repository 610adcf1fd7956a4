"""Faults of a device that a process does not survive."""

import torch

from swarmd.policy.memory import is_out_of_memory

# After any of these every later call on the device fails as well, in this process.
_WORDS = (
    "CUDA error",
    "CUDA driver error",
    "CUBLAS_STATUS_",
    "CUDNN_STATUS_",
    "CUSOLVER_STATUS_",
    "cuDNN error",
    "NCCL error",
)


def loses_device(error: BaseException) -> bool:
    """Whether `error` leaves its process without the device: another process has to take its place."""
    if is_out_of_memory(error):
        return False
    if isinstance(error, getattr(torch, "AcceleratorError", ())):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _WORDS)
