"""Recognising that memory ran out, whoever noticed it, and giving back what is cached."""

import gc

import torch

# torch's CPU allocator raises a plain RuntimeError; these are its words, and those of the CUDA libraries.
_WORDS = ("can't allocate memory", "not enough memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether `error` says that memory ran out, on the host or on the device."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _WORDS)


def free_memory() -> None:
    """Collect dead tensors and return the device's cached blocks."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
