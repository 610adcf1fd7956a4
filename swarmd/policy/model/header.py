"""The header of a safetensors file: which tensors are in it and of what shape, read without loading any."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swarmd.errors import ModelUnavailable

# A header of a sharded 7B model is about 40 KB, of 100,000 tensors 12 MB; the format allows 100 MB.
_HEADER_BYTES_MAX = 32 * 2**20
_SIZE_MAX = 2**53
# The most dimensions of a tensor; weights have up to five.
_DIMENSIONS_MAX = 16
# The smallest kinds of numbers take a bit.
_ELEMENTS_PER_BYTE_MAX = 8


def tensor_shapes(name: str, file: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a safetensors file, from its header alone; a file of 1 GB costs one small read.

    Raises:
        ModelUnavailable: it is not such a file, or not a whole one.
    """
    try:
        with open(file, "rb") as source:
            size = int.from_bytes(source.read(8), "little")
            if size > _HEADER_BYTES_MAX:
                raise ValueError("the header's size is impossible")
            header = json.loads(source.read(size))
        if not isinstance(header, dict):
            raise ValueError("the header is not a JSON object")
        header.pop("__metadata__", None)
        if not header:
            raise ValueError("there are no tensors in it")
        shapes = {tensor: _shape(tensor, entry) for tensor, entry in header.items()}
        num_bytes = max(_size(entry["data_offsets"][1]) for entry in header.values())
        if file.stat().st_size != 8 + size + num_bytes:
            raise ValueError(f"{file.stat().st_size} bytes where the header says {8 + size + num_bytes}")
        return shapes
    except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise ModelUnavailable(
            f"model {name} cannot be read", f"{file}: {error}", "download it again"
        ) from None


def _shape(tensor: str, entry: Mapping[str, Any]) -> tuple[int, ...]:
    """A tensor's sizes, whose product its bytes have room for: the product of a million sizes takes hours."""
    shape, (begin, end) = entry["shape"], map(_size, entry["data_offsets"])
    if not isinstance(shape, list) or len(shape) > _DIMENSIONS_MAX:
        raise ValueError(
            f"tensor {tensor!r:.80} has no shape, or one of more than {_DIMENSIONS_MAX} dimensions"
        )
    sizes = tuple(map(_size, shape))
    if math.prod(sizes) > _ELEMENTS_PER_BYTE_MAX * (end - begin):
        raise ValueError(
            f"tensor {tensor!r:.80} has more elements than its {end - begin} bytes have room for"
        )
    return sizes


def _size(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _SIZE_MAX:
        raise ValueError(f"{value!r:.40} is no size")
    return value
