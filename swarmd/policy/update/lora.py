"""Low-rank adapters (arXiv 2106.09685) inside a transformers model: put there by peft, read and merged without it.

The model object stays what it was: only its linear layers are wrapped. Everything outside sees the names and shapes of the model
without adapters, and merged matrices.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from swarmd.errors import ConfigError

if TYPE_CHECKING:
    from peft.tuners.lora import LoraLayer
    from transformers import PreTrainedModel

ADAPTER = "default"

# The product B A is scaled by alpha / rank, here 2 at every rank. Doubling it about doubles a step, as the learning rate does.
ALPHA_TIMES_RANK = 2


def add_adapters(model: "PreTrainedModel", rank: int) -> None:
    """Freeze the model and give every linear layer but the head an adapter of zero effect, in the layer's precision.

    The narrow model's adapters are narrow too, with masters like any other weight: float32 ones would have peft hold a float32
    copy of every layer's input for the backward, more memory than the adapters' masters and moments together. The first factors
    are drawn from a fixed seed.

    Raises:
        ConfigError: peft is not installed, or finds no layer of the model to adapt.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise ConfigError(
            "plan lora needs peft, which cannot be imported",
            str(error),
            "pip install peft, or choose another policy.plan",
        ) from error
    model.requires_grad_(False)
    config = LoraConfig(
        r=rank, lora_alpha=ALPHA_TIMES_RANK * rank, target_modules="all-linear", lora_dropout=0.0
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            inject_adapter_in_model(config, model, ADAPTER)
        except ValueError as error:
            raise ConfigError(
                f"plan lora cannot adapt {type(model).__name__}",
                str(error),
                "choose another policy.plan",
            ) from error
    model.eval()


@torch.no_grad()
def remove_adapters(model: nn.Module) -> None:
    """Merge the adapters, take them out, and make every weight trainable again."""
    for place, layer in list(_adapted(model)):
        layer.base_layer.weight.copy_(_merged(layer.base_layer.weight, layer))
        parent, _, name = place.rpartition(".")
        setattr(model.get_submodule(parent), name, layer.base_layer)
    model.requires_grad_(True)


def base_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The state dict as it would be without adapters; for a model without any, the state dict."""
    tensors = dict(model.state_dict())
    for place in dict(_adapted(model)):
        for name in [name for name in tensors if name.startswith(f"{place}.")]:
            value, rest = tensors.pop(name), name.removeprefix(f"{place}.")
            if rest.startswith("base_layer."):
                tensors[f"{place}.{rest.removeprefix('base_layer.')}"] = value
    return tensors


def adapted_weights(model: nn.Module) -> dict[str, Tensor]:
    """The matrices under adapters, by their names without them."""
    return {f"{place}.weight": layer.base_layer.weight.detach() for place, layer in _adapted(model)}


@torch.no_grad()
def forget_adapters(model: nn.Module) -> None:
    """Give every adapter zero effect again."""
    for _, layer in _adapted(model):
        layer.lora_B[ADAPTER].weight.zero_()


@contextmanager
def merged_in_place(model: nn.Module, before_change: Callable[[], None]) -> Iterator[None]:
    """Within the block each adapted matrix is the merged one; afterwards it is the old one, bit for bit.

    For whoever reads the matrices and knows no adapters. The host holds the old ones meanwhile. The model must not be run.

    Args:
        before_change: called where there are adapters, before the first matrix changes.
    """
    kept: list[tuple[Tensor, Tensor]] = []
    if adapted := [layer for _, layer in _adapted(model)]:
        before_change()
    try:
        for layer in adapted:
            base = layer.base_layer.weight.detach()
            kept.append((base, base.to("cpu", copy=True)))
            base.copy_(_merged(base, layer))
        yield
    finally:
        for base, old in kept:
            base.copy_(old)


class MergedTensors(Mapping[str, Tensor]):
    """A model's tensors by their names without adapters, in which an adapted matrix is merged each time it is asked for.

    So a reader that takes one after the other needs memory for one, not for a second model.
    """

    def __init__(self, model: nn.Module, names: Iterable[str]) -> None:
        live = base_tensors(model)
        self.unmerged = {name: live[name].detach() for name in names}
        self._layers = {f"{place}.weight": layer for place, layer in _adapted(model)}

    def __getitem__(self, name: str) -> Tensor:
        base = self.unmerged[name]
        return _merged(base, self._layers[name]) if name in self._layers else base

    def __iter__(self) -> Iterator[str]:
        return iter(self.unmerged)

    def __len__(self) -> int:
        return len(self.unmerged)


@torch.no_grad()
def _merged(base: Tensor, layer: "LoraLayer") -> Tensor:
    wide = torch.promote_types(base.dtype, torch.float32)
    up, down = layer.lora_B[ADAPTER].weight.to(wide), layer.lora_A[ADAPTER].weight.to(wide)
    return torch.addmm(base.to(wide), up, down, alpha=layer.scaling[ADAPTER]).to(base.dtype)


def _adapted(model: nn.Module) -> Iterator[tuple[str, "LoraLayer"]]:
    """Each wrapped layer with its place in the model."""
    for place, module in model.named_modules():
        if hasattr(module, "base_layer") and hasattr(module, "lora_A"):
            yield place, module
