"""A pretend accelerator: it computes on the CPU, refuses what a real one refuses, and counts what a real one waits for.

Its tensors wrap CPU tensors. An operation on tensors of both places fails, as on CUDA. A process cannot forget a kind of device
once it has one, so this module is for processes of their own: see `scenarios`.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

_setup_privateuseone_for_python_backend("pretend")
torch._C._set_only_lift_cpu_tensors(
    True
)  # `torch.tensor(..., device=...)` then makes a CPU tensor and copies it
torch.pretend.get_amp_supported_dtype = lambda: [torch.bfloat16]  # type: ignore[attr-defined]  # checkpointing asks
DEVICE = torch.device("pretend:0")
CPU = torch.device("cpu")
ROOT = Path(__file__).parents[3]

# Results of a shape that only the device knows: the host must wait to make them.
WAITED_FOR = {
    "aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_dim", "aten::equal", "aten::is_nonzero",
    "aten::repeat_interleave", "aten::_local_scalar_dense", "aten::bincount",
}  # fmt: skip
COPIES = {"aten::_to_copy", "aten::copy_"}


class Counts:
    """Transfers and waits, by the line of `swarmd` that caused them."""

    def __init__(self) -> None:
        self.uploads, self.downloads, self.waits = Counter[str](), Counter[str](), Counter[str]()
        self.background = Counter[str]()  # copies that nobody waits for

    @property
    def syncs(self) -> Counter[str]:
        """All that the host waits for."""
        return self.downloads + self.waits


counts = Counts()
no_float64 = False


def where() -> str:
    """The innermost line of `swarmd` under way; a backward's thread has none."""
    frame = sys._getframe(1)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(ROOT / "swarmd"):
            return f"{path.relative_to(ROOT)}:{frame.f_lineno} {frame.f_code.co_name}"
        frame = frame.f_back  # type: ignore[assignment]
    return "elsewhere"


class OnDevice(torch.Tensor):
    """A tensor of the pretend device."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> "OnDevice":
        made: OnDevice = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=DEVICE,
        )
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})

    def tolist(self) -> Any:
        counts.downloads[where()] += 1
        return self.inner.tolist()

    def __deepcopy__(self, memo: dict[int, Any]) -> "OnDevice":
        if id(self) not in memo:
            memo[id(self)] = OnDevice(self.inner.clone())
        return memo[id(self)]  # type: ignore[no-any-return]

    def data_ptr(self) -> int:
        return self.inner.data_ptr()

    def __repr__(self, **_: Any) -> str:
        return f"OnDevice({self.inner!r})"


def tensors_in(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """An operation's arguments or results are tensors, and lists of tensors. torch's own walks are five times slower."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)


def each_tensor(change: Callable[[torch.Tensor], Any], value: Any) -> Any:
    """The value with its tensors changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)([each_tensor(change, part) for part in value])
    return value


def inner(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.inner if isinstance(tensor, OnDevice) else tensor


def run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """An operation with a tensor of the device among its arguments, or that makes one."""
    name, tensors = func._schema.name, [*tensors_in(args), *tensors_in(kwargs.values())]
    here = [isinstance(tensor, OnDevice) for tensor in tensors]
    if name not in COPIES and not all(here) and any(here):
        strangers = [t for t, on in zip(tensors, here, strict=True) if not on and t.dim() > 0]
        if strangers:
            raise RuntimeError(f"{name}: tensors on the pretend device and on the CPU, at {where()}")
    if name in WAITED_FOR or (
        name.startswith("aten::index") and any(t.dtype == torch.bool for t in tensors[1:])
    ):
        counts.waits[where()] += 1
    to_host = _count_copy(name, args, kwargs)
    plain_kwargs = {
        key: CPU if isinstance(value, torch.device) else each_tensor(inner, value)
        for key, value in kwargs.items()
    }
    found = func(*each_tensor(inner, args), **plain_kwargs)
    if to_host:
        return found if name == "aten::_to_copy" else args[0]
    found = each_tensor(lambda t: t if isinstance(t, OnDevice) else OnDevice(t), found)
    if no_float64 and any(t.dtype == torch.float64 for t in tensors_in([found])):
        raise TypeError(f"{name}: the device has no float64, at {where()}")
    return return_and_correct_aliasing(func, args, kwargs, found)


def _count_copy(name: str, args: Any, kwargs: dict[str, Any]) -> bool:
    """Count a copy between the places; whether it ends on the host."""
    if name == "aten::copy_" and args[0].is_meta:  # nothing is copied
        return True
    if name == "aten::copy_":
        target, source = isinstance(args[0], OnDevice), isinstance(args[1], OnDevice)
    elif name == "aten::_to_copy":
        source = isinstance(args[0], OnDevice)
        target = source if kwargs.get("device") is None else kwargs["device"].type == DEVICE.type
    else:
        return False
    if source != target and args[0].numel():
        background = kwargs.get("non_blocking") or (name == "aten::copy_" and len(args) > 2 and args[2])
        kind = counts.background if background else counts.downloads if source else counts.uploads
        kind[where()] += 1
    return not target


@cache
def composite(func: Any) -> bool:
    """Whether torch makes it of other operations."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"))


class _Watch(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        device = kwargs.get("device")
        on_device = any(isinstance(t, OnDevice) for t in [*tensors_in(args), *tensors_in(kwargs.values())])
        if not on_device and (device is None or device.type != DEVICE.type):
            return func(*args, **kwargs)
        if composite(func):
            with self:  # in inference mode such operations come whole
                return func.decompose(*args, **kwargs)
        return run(func, args, kwargs)


class Pretend:
    """Within the block the device exists, and `counts` begins anew."""

    def __enter__(self) -> "Pretend":
        global counts
        self.counts = counts = Counts()
        self._watch = _Watch()
        self._watch.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._watch.__exit__(*error)


def put_on_device(model: nn.Module) -> None:
    """Move a model's parameters and buffers, tied ones once."""
    moved: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                fresh = nn.Parameter(OnDevice(parameter.detach()), parameter.requires_grad)
                module._parameters[name] = moved.setdefault(id(parameter), fresh)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = OnDevice(buffer)
