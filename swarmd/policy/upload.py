"""Numbers of the host onto a device, in one transfer that the host does not wait for."""

from collections.abc import Sequence

import torch
from torch import Tensor


def upload(
    values: Sequence[float] | Sequence[Sequence[int]], dtype: torch.dtype, device: torch.device
) -> Tensor:
    """The values as a tensor on `device`. On CUDA they leave from pinned memory, which torch keeps until they have arrived."""
    pinned = device.type == "cuda"
    return torch.tensor(values, dtype=dtype, pin_memory=pinned).to(device, non_blocking=pinned)
