"""zstd with a bound that holds: one frame that declares its size, nothing after it, and never more memory than declared."""

import zstandard

LEVEL = 3  # zstd's default; level 9 saves 3-5 % of rollout text at four times the time
# RFC 8878 recommends that decoders take at least 8 MiB and refuse much more; our own frames need no more than their content.
WINDOW_BYTES_MAX = 8 * 1024 * 1024
# RFC 8878, 3.1.1.2.4. libzstd takes longer stored and repeated blocks, other decoders do not: checked here, so that all agree.
BLOCK_BYTES_MAX = 128 * 1024
# A compressor that flushes after every line of the largest body makes fewer blocks. 20,000 empty blocks fit a message, and would
# cost as much time as everything else about the message.
BLOCKS_MAX = 1024
_MAGIC = b"\x28\xb5\x2f\xfd"  # neither a skippable frame nor a format older than RFC 8878

_REPEATED, _COMPRESSED, _RESERVED = 1, 2, 3  # kinds of block; 0 is stored


class DamagedBlocks(ValueError):
    """The frame is well formed, but what it holds cannot be decompressed, or is not of the declared size."""


def compress(content: bytes) -> bytes:
    """One frame that declares its content's size. zstd versions differ in the bytes they produce; all decode alike."""
    return zstandard.ZstdCompressor(level=LEVEL, write_content_size=True).compress(content)


def decompress(frame: bytes, *, content_bytes_max: int) -> bytes:
    """The content of exactly one frame.

    Raises:
        ValueError: not zstd, no declared size, a size or window above the limit, a dictionary, stored blocks that do not make the
            declared size, blocks too large or too many, or bytes after the frame.
        DamagedBlocks: as it says. Decoders differ here: on damaged Huffman streams even libzstd on two kinds of CPU.
    """
    if frame[:4] != _MAGIC:
        raise ValueError("not a zstd frame")
    try:
        declared, header_size = zstandard.get_frame_parameters(frame), zstandard.frame_header_size(frame)
    except zstandard.ZstdError as error:
        raise ValueError(f"zstd: {error}") from None
    # python-zstandard's own max_output_size is ignored for a frame that declares its size (8 KiB became 256 MiB), so look first.
    # An undeclared size reads as 2**64 - 1.
    if not 0 < declared.content_size <= content_bytes_max:
        raise ValueError(f"declares {declared.content_size} bytes of at most {content_bytes_max}")
    if declared.window_size > WINDOW_BYTES_MAX:
        raise ValueError(f"wants a window of {declared.window_size} bytes, at most {WINDOW_BYTES_MAX}")
    if declared.dict_id:
        raise ValueError("wants a dictionary")
    end = _end_of_blocks(
        frame, header_size, declared.content_size, min(declared.window_size, BLOCK_BYTES_MAX)
    )
    if end + 4 * declared.has_checksum != len(frame):
        raise ValueError("ends too soon, or bytes after the frame")
    reader = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX)
    try:
        # The output buffer has the declared size: a frame that lies about it fails instead of growing.
        content = reader.decompress(frame, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise DamagedBlocks(f"zstd: {error}") from None
    if len(content) != declared.content_size:
        raise DamagedBlocks("content is not of the declared size")
    return content


def _end_of_blocks(frame: bytes, place: int, content_size: int, block_bytes_max: int) -> int:
    """Where the last block ends. Looks at the blocks' headers only (RFC 8878, 3.1.1.2)."""
    num_plain, compressed = 0, False
    for _ in range(BLOCKS_MAX):
        head = int.from_bytes(frame[place : place + 3], "little")
        is_last, kind, size = head & 1, head >> 1 & 3, head >> 3
        place += 3 + (1 if kind == _REPEATED else size)
        if place > len(frame):
            raise ValueError("ends within a block")
        if kind == _RESERVED or size > block_bytes_max:
            raise ValueError(f"a block of kind {kind} and {size} bytes, at most {block_bytes_max}")
        compressed |= kind == _COMPRESSED
        num_plain += 0 if kind == _COMPRESSED else size
        if num_plain > content_size:
            raise ValueError("more content than declared")
        if is_last:
            if not compressed and num_plain != content_size:
                raise ValueError("less content than declared")
            return place
    raise ValueError(f"more than {BLOCKS_MAX} blocks")
