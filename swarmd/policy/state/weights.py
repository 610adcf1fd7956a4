"""Weights on disk as safetensors; promises that a file which does not fit the model changes nothing.

We write the file ourselves, in one pass that also hashes it: nothing is read back for its digest, and a full disk is an `OSError`
from `write`, not a fault in a memory map. Format: https://github.com/huggingface/safetensors#format. No pickle.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from swarmd.errors import StateError
from swarmd.policy.state.durable import fresh_directory
from swarmd.policy.state.shapes import do_not_fit
from swarmd.policy.update.lora import MergedTensors, adapted_weights, base_tensors, forget_adapters

FILE_NAME = "model.safetensors"
_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def named_tensors(model: nn.Module) -> Mapping[str, Tensor]:
    """Every tensor of the state dict once: of tied ones (a head that is the embedding) only the first name.

    Names and shapes are those of the model without adapters. An adapted matrix is merged when it is asked for, each time.
    """
    live = base_tensors(model)
    return MergedTensors(model, [names[0] for names in _tied(live)])


def save_weights(model: nn.Module, directory: Path, version: int) -> Path:
    """Write the weights to a folder `directory/version-00000012` that appears complete or not at all, and return it.

    Each version has a folder of its own, so a reader never sees one change under it. Earlier versions are removed: a reader
    loads a version before it asks for the next, and the place is often memory.

    Raises:
        DiskFull: no space; what was written is removed.
    """
    tensors = named_tensors(model)
    target = directory / f"version-{version:08d}"
    with fresh_directory(target, f"weights of version {version}", size_bytes=size_bytes(tensors)) as folder:
        write_tensors(folder / FILE_NAME, tensors, lasting=False)
    for earlier in directory.glob("version-*"):
        if earlier != target:
            shutil.rmtree(earlier, ignore_errors=True)
    return target


def newest_version(directory: Path) -> tuple[Path, int] | None:
    """The folder that `save_weights` wrote last, and its version."""
    found = max(directory.glob("version-*"), default=None)
    return None if found is None else (found, int(found.name.partition("-")[2]))


def load_weights(model: nn.Module, path: Path) -> None:
    """Copy the tensors of `path` (a file, or a folder holding model.safetensors) into `model`; adapters lose their effect.

    Names, shapes and dtypes are all checked before the first tensor is copied. A tied tensor may stand in the file under any
    of its names, or under several with equal values.

    Raises:
        StateError: unreadable file; missing, unknown or misfitting tensors. The model is untouched.
    """
    with opened(path) as source, torch.no_grad():
        for name, target in _targets(base_tensors(model), source, path).items():
            target.copy_(source.get_tensor(name))
    forget_adapters(model)


def stands_on(model: nn.Module, path: Path) -> bool:
    """Whether the weights in a file were made from this model's by adapters: all that no adapter changes is equal, bit for bit.

    Raises:
        StateError: the file cannot be read.
    """
    live, adapted = base_tensors(model), adapted_weights(model)
    with opened(path) as source:
        same = set(source.keys()) <= set(live)
        return same and all(
            torch.equal(source.get_tensor(name), live[name].cpu())
            for name in set(source.keys()) - set(adapted)
        )


@contextmanager
def opened(path: Path) -> Iterator[safe_open]:
    """A safetensors file, or the weights in a folder, for reading within the block. Raises StateError when it cannot be read."""
    file = path / FILE_NAME if path.is_dir() else path
    try:
        with safe_open(file, framework="pt") as source:
            yield source
    except (OSError, SafetensorError) as error:
        raise StateError(f"cannot read weights from {file}", str(error)) from error


def size_bytes(tensors: Mapping[str, Tensor]) -> int:
    """Bytes of the tensors on disk."""
    return sum(tensor.numel() * tensor.element_size() for tensor in _layout(tensors).values())


def write_tensors(path: Path, tensors: Mapping[str, Tensor], *, lasting: bool = True) -> str:
    """Write one new safetensors file; returns its SHA-256 in hex.

    A file that is not `lasting` is for another process to read at once: it is neither hashed nor flushed to the disk, and the
    result is empty.

    Raises:
        OSError: the file cannot be written; a part of it may be left.
    """
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, tensor in _layout(tensors).items():
        end = offset + tensor.numel() * tensor.element_size()
        shape = list(tensor.shape)
        header[name] = {"dtype": _DTYPES[tensor.dtype], "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data must begin at a multiple of 8
    digest = hashlib.sha256()
    with open(path, "xb") as file:

        def put(part: bytes | memoryview) -> None:
            file.write(part)
            if lasting:
                digest.update(part)

        put(len(text).to_bytes(8, "little"))
        put(text)
        for tensor in tensors.values():
            put(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        if lasting:
            file.flush()
            os.fsync(file.fileno())
    return digest.hexdigest() if lasting else ""


def _layout(tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Tensors of the same names, shapes and types, in the same order, without merging any for it."""
    return tensors.unmerged if isinstance(tensors, MergedTensors) else tensors


def _targets(live: Mapping[str, Tensor], source: safe_open, path: Path) -> dict[str, Tensor]:
    """Which tensor of the file goes where; raises unless everything fits."""
    found = set(source.keys())
    problems = [f"unknown tensor {name}" for name in sorted(found - set(live))]
    for names in _tied(live):
        present = [name for name in names if name in found]
        if not present:
            problems.append(f"missing tensor {names[0]}")
        for name in present:
            problems += _misfit(name, live[name], source)
    if not problems:
        problems = _unequal_ties(live, source, found)
    if problems:
        raise do_not_fit(path, problems)
    return {name: live[name] for name in sorted(found)}


def _misfit(name: str, wanted: Tensor, source: safe_open) -> list[str]:
    part = source.get_slice(name)
    shape, dtype = tuple(part.get_shape()), part.get_dtype()
    if shape != tuple(wanted.shape):
        return [f"{name} has shape {shape}, the model {tuple(wanted.shape)}"]
    if dtype != _DTYPES[wanted.dtype]:
        return [f"{name} is {dtype}, the model {_DTYPES[wanted.dtype]}"]
    return []


def _unequal_ties(live: Mapping[str, Tensor], source: safe_open, found: set[str]) -> list[str]:
    problems = []
    for names in _tied(live):
        first, *others = [name for name in names if name in found]
        for other in others:
            if not torch.equal(source.get_tensor(first), source.get_tensor(other)):
                problems.append(f"{first} and {other} are tied in the model and differ in the file")
    return problems


def _tied(live: Mapping[str, Tensor]) -> list[list[str]]:
    """The names, grouped by the memory they stand for."""
    groups: dict[object, list[str]] = {}
    for name, tensor in live.items():
        key = (tensor.data_ptr(), tuple(tensor.shape)) if tensor.numel() else name
        groups.setdefault(key, []).append(name)
    return list(groups.values())
