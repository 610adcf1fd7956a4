"""The collectives of a data-parallel update: ranks meet, take over rank 0's state, and add gradients up.

torch.distributed, meeting through a file; the connections of NCCL and gloo are held to the loopback interface.
"""

import os
import sys
from collections.abc import Sequence
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from swarmd.policy.update.learner import Learner
from swarmd.policy.update.masters import MasterWeights

# A collective that waits this long has lost somebody. Ranks begin together and end within one pack of each other.
TIMEOUT_S = 120


def join(store: str, rank: int, num_ranks: int, device: torch.device) -> None:
    """Become one of `num_ranks`; returns when all are there. `store` is a path on which all agree, fresh for each meeting."""
    loopback = "lo0" if sys.platform == "darwin" else "lo"
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        os.environ.setdefault(name, loopback)
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=num_ranks,
        timeout=timedelta(seconds=TIMEOUT_S),
    )


def leave() -> None:
    """Give the connections back."""
    if dist.is_initialized():
        dist.destroy_process_group()


def state_names(learner: Learner) -> list[str]:
    """The names of the tensors that `hand_over` sends, in order."""
    return list(_state(learner))


@torch.no_grad()
def hand_over(learner: Learner, names: Sequence[str], *, giving: bool) -> None:
    """Rank 0 gives its weights and optimizer state, the others take them into their own.

    Raises:
        KeyError: the others' model or optimizer is not rank 0's.
    """
    live = _state(learner)
    for name in names:
        buffer = live[name].to(learner.model.device).contiguous()
        dist.broadcast(buffer, 0)
        if not giving and buffer.data_ptr() != live[name].data_ptr():
            live[name].copy_(buffer)


def add_up(masters: MasterWeights) -> None:
    """Every rank's gradients become the sum of all; one that no rank has stays away, so that the optimizer skips it as ever."""
    names = list(masters.by_name)
    has = [masters.by_name[name].grad is not None for name in names]
    present = torch.tensor(has, dtype=torch.int32, device=masters.by_name[names[0]].device)
    dist.all_reduce(present, dist.ReduceOp.MAX)
    waiting = []
    for name, anywhere in zip(names, present.tolist(), strict=True):
        master = masters.by_name[name]
        if not anywhere:
            continue
        if master.grad is None:
            master.grad = torch.zeros_like(master)
        waiting.append(dist.all_reduce(master.grad, async_op=True))
    for one in waiting:
        one.wait()


def checksum(masters: MasterWeights) -> int:
    """A number that differs when a single bit of the masters does, but for a few coincidences."""
    total = 0
    for place, master in enumerate(masters.by_name.values(), start=1):
        words = torch.int64 if master.element_size() == 8 else torch.int32
        total += place * int(master.detach().reshape(-1).view(words).sum(dtype=torch.int64).item())
    return total % (1 << 62)


def _state(learner: Learner) -> dict[str, Tensor]:
    """The live tensors: of the model, and of the optimizer. The weights under adapters are the model's already."""
    model = [*learner.model.named_parameters(), *learner.model.named_buffers()]
    state = {f"model/{name}": tensor.detach() for name, tensor in model}
    optimizer = learner.optimizer_tensors().items()
    return state | {
        f"optimizer/{key}": tensor.detach() for key, tensor in optimizer if not key.startswith("base/")
    }
