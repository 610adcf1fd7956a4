"""The memory that the self-check takes, against what tensors it holds at once."""

import random
import weakref
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from swarmd.policy.plans.needs import check_bytes
from swarmd.policy.plans.shape import shape_of
from swarmd.policy.update.masters import MasterWeights
from swarmd.policy.update.packing import TokenCompletion, TokenRollout
from swarmd.policy.update.passes import Trained
from swarmd.policy.update.self_check import check_packed_pass
from swarmd.policy.update.weighting import weigh
from tests.policy.settings import config, execution
from tests.policy.tiny_models import VOCAB, build

SIZES = {
    "half a billion's layers": {"hidden_size": 896, "intermediate_size": 4864, "num_attention_heads": 14},
    "small layers": {"hidden_size": 256, "intermediate_size": 700, "num_attention_heads": 4},
}


class Held(TorchDispatchMode):
    """Counts the bytes of tensors made within the block: those that are there now, and the most at once."""

    def __init__(self) -> None:
        super().__init__()
        self.size_by_storage: dict[int, int] = {}
        self.now_bytes = self.peak_bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {id(a.untyped_storage()) for a in tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor)}
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, torch.Tensor) and id(tensor.untyped_storage()) not in given:
                self._count(tensor.untyped_storage())
        return made

    def _count(self, storage: torch.UntypedStorage) -> None:
        if id(storage) not in self.size_by_storage:
            self.size_by_storage[id(storage)] = storage.nbytes()
            self.now_bytes += storage.nbytes()
            self.peak_bytes = max(self.peak_bytes, self.now_bytes)
            weakref.finalize(storage, self._forget, id(storage))

    def _forget(self, number: int) -> None:
        self.now_bytes -= self.size_by_storage.pop(number)


def long_rollout(seed: int) -> TokenRollout:
    """As long as the sample takes, or longer."""
    prompt, *answers = (tuple(random.Random(seed + n).choices(range(1, VOCAB), k=200)) for n in (0, 10, 20))
    return TokenRollout(prompt, tuple(TokenCompletion(ids, 1.0) for ids in answers))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", SIZES)
def test_the_self_check_holds_what_the_plans_count(size: str, dtype: torch.dtype) -> None:
    model = build(dtype=dtype, num_key_value_heads=2, num_hidden_layers=1, **SIZES[size])
    shape = shape_of(model.config.to_dict())
    assert shape is not None
    settings = config()
    trained = Trained(model, MasterWeights(model), settings, execution())
    groups = weigh([long_rollout(0), long_rollout(1)], settings)
    with Held() as held:
        check_packed_pass(trained, groups)
    counted = check_bytes(shape, dtype.itemsize)
    assert held.peak_bytes <= counted <= 1.5 * held.peak_bytes
    assert held.now_bytes < 2**12
