"""The header of a safetensors file: which tensors are in it and of what shape, read without loading any."""

from pathlib import Path

from safetensors import SafetensorError, safe_open

from swarmd.errors import ModelUnavailable

# A header of a sharded 7B model is about 40 KB, of 100,000 tensors 12 MB; the format allows 100 MB.
_HEADER_BYTES_MAX = 32 * 2**20
# The most dimensions of a tensor; weights have up to five.
_DIMENSIONS_MAX = 16


def tensor_shapes(name: str, file: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a safetensors file, from its header alone; a file of 1 GB costs one small read.

    The library compares shapes, offsets and the file's size, so a header that lies is an error here.

    Raises:
        ModelUnavailable: it is not such a file, or not a whole one.
    """
    try:
        with open(file, "rb") as start:
            if int.from_bytes(start.read(8), "little") > _HEADER_BYTES_MAX:
                raise ValueError("the header's size is impossible")
        with safe_open(file, framework="numpy") as source:
            shapes = {tensor: tuple(source.get_slice(tensor).get_shape()) for tensor in source.keys()}  # noqa: SIM118
        if not shapes:
            raise ValueError("there are no tensors in it")
        if max(map(len, shapes.values())) > _DIMENSIONS_MAX:
            raise ValueError(f"a tensor has more than {_DIMENSIONS_MAX} dimensions")
        return shapes
    except SafetensorError as error:
        why = f"{file} is damaged, or not whole: {error}"
    except (OSError, ValueError) as error:
        why = f"{file}: {error}"
    raise ModelUnavailable(f"model {name} cannot be read", why, "download it again")
