"""One copy of the weights: the learner's parameters are views of the engine's tensors, where both lay their weights out alike.

An engine fuses matrices that multiply the same input. Their rows lie one after the other, so each matrix is a view of some rows.
Optimizers write in place, so the engine computes with every step at once, and nothing is handed over. `bind` says why a model
cannot share. It then keeps weights of its own, and the engine gets copies of them.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from swarmd.policy.generation.engine import Engine
from swarmd.policy.model.loading import load_model
from swarmd.policy.update.lora import merged_in_place

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# vLLM's names of fused matrices, with what transformers calls their parts, in the order of their rows.
FUSED = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}


def load_beside(engine: Engine | None, model_dir: Path, device: str) -> tuple["PreTrainedModel", str]:
    """The folder's model for a learner beside this engine, and why it has weights of its own although the engine has some.

    Raises:
        ModelUnavailable, NoDevice, OutOfMemory: see `load_model`.
    """
    tensors = engine.tensors() if engine else {}
    if engine is None or not tensors:
        return load_model(model_dir, device), ""
    refused: list[str] = []
    model = load_model(model_dir, device, before_move=lambda model: refused.append(bind(model, tensors)))
    engine.keeps_weights = bool(refused[0])
    return model, refused[0]


def bind(model: nn.Module, engines: Mapping[str, Tensor]) -> str:
    """Make a model's parameters views of the engine's tensors.

    Both must hold the same numbers, so that a name or an order of rows that means something else to the engine is noticed. The
    model's own tensors may be on another device.

    Returns:
        Why the model cannot share, and nothing has changed then; empty where it shares now.
    """
    views: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        found = _view(name, parameter, model, engines)
        if isinstance(found, str):
            return found
        views[name] = found
    kept = sorted(
        set(model.state_dict()) - {name for name, _ in model.named_parameters(remove_duplicate=False)}
    )
    if kept:
        return f"{kept[0]} is no parameter"
    used = {view.untyped_storage().data_ptr() for view in views.values()}
    for name, tensor in engines.items():
        if tensor.untyped_storage().data_ptr() not in used:
            return f"the engine's {name} is no parameter of the model"
    for name, parameter in model.named_parameters():
        if not torch.equal(parameter.detach().to(views[name].device), views[name]):
            return f"the engine holds other numbers in {name} than the model's folder"
    for name, parameter in model.named_parameters():
        parameter.data = views[name]
    return ""


@contextmanager
def policy_in(engine: Engine, model: nn.Module | None, before_change: Callable[[], None]) -> Iterator[None]:
    """Within the block the engine's tensors hold the policy, also where adapters are part of it.

    An engine that shares a model's weights does not know its adapters. Their effect is added to the shared matrices for the block.

    Args:
        before_change: called before weights change: somebody may still be reading them.
    """
    if model is None or engine.keeps_weights or not engine.own_forward:
        yield
        return
    with merged_in_place(model, before_change):
        yield


def _view(name: str, parameter: Tensor, model: nn.Module, engines: Mapping[str, Tensor]) -> Tensor | str:
    """The part of an engine's tensor that a parameter may be, or why there is none."""
    place, first, num_rows = _place(name, model)
    whole = engines.get(place)
    if whole is None:
        return f"the engine has no {place}"
    if not whole.numel():
        return f"the engine has packed {place}"
    if whole.dtype != parameter.dtype:
        return f"the engine's {place} is {whole.dtype}, the model's {name} {parameter.dtype}"
    # An engine rounds the number of tokens in its vocabulary up.
    rows_max = num_rows if place != name or not _is_embedding(parameter, model) else whole.shape[0]
    if not num_rows <= whole.shape[0] <= rows_max or whole.shape[1:] != parameter.shape[1:]:
        return f"the engine's {place} has shape {tuple(whole.shape)}, the model's {name} {tuple(parameter.shape)}"
    if whole.is_inference() or not whole.is_contiguous():
        return f"the engine's {place} cannot be written in place"
    return whole.detach()[first : first + parameter.shape[0]]


def _place(name: str, model: nn.Module) -> tuple[str, int, int]:
    """The engine's name for the tensor that holds a parameter, the parameter's first row there, and the rows of all its parts."""
    owner, _, leaf = name.rpartition(".")
    parent, _, module = owner.rpartition(".")
    for fused, parts in FUSED.items():
        if module not in parts:
            continue
        siblings = [getattr(model.get_submodule(parent), part, None) for part in parts]
        rows = [len(tensor) for one in siblings if (tensor := getattr(one, leaf, None)) is not None]
        if len(rows) == len(parts):
            return f"{parent}.{fused}.{leaf}", sum(rows[: parts.index(module)]), sum(rows)
    return name, 0, len(model.get_parameter(name))


def _is_embedding(parameter: Tensor, model: nn.Module) -> bool:
    ends = [getattr(model, f"get_{end}_embeddings", lambda: None)() for end in ("input", "output")]
    return any(end is not None and end.weight is parameter for end in ends)
