"""Files that a person names, read within a bound: whatever is given, a wrong one costs an error and not the memory."""

from pathlib import Path


def read_within(path: Path, bytes_max: int) -> bytes:
    """All bytes of a file that has at most `bytes_max` of them; devices and pipes are read no further than that.

    Raises:
        OSError: it cannot be read. ValueError: it has more bytes, or the name holds what no name can.
    """
    with path.open("rb") as file:
        data = file.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise ValueError(f"it has more than {bytes_max} bytes")
    return data
