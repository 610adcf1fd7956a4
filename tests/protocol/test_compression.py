"""The bound holds: a bomb costs what was promised, and a frame is one whole frame."""

import tracemalloc

import pytest
import zstandard

from swarmd.protocol.compression import compress, decompress
from tests.protocol.craft import block, stored_frame

LIMIT = 100_000
BLOCK = 131_072  # the largest a zstd block may be


def bomb(declared: int) -> bytes:
    """8 KiB that would become 256 MiB."""
    blocks = block(1, BLOCK, b"x", last=False) * 2047 + block(1, BLOCK, b"x")
    return stored_frame(b"", declared=declared, blocks=blocks)


@pytest.mark.parametrize("size", [1, 255, 256, 65_791, LIMIT])
def test_content_comes_back(size):
    content = bytes(i * 7 % 256 for i in range(size))
    assert decompress(compress(content), content_bytes_max=LIMIT) == content


@pytest.mark.parametrize("declared", [1, LIMIT, LIMIT + 1, 256 * 1024 * 1024, 2**32 - 1])
def test_a_bomb_is_refused_within_the_promised_memory(declared):
    frame = bomb(declared)
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"zstd|declares"):
        decompress(frame, content_bytes_max=LIMIT)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * LIMIT


def test_the_bomb_is_a_bomb():
    assert len(zstandard.decompress(bomb(256 * 1024 * 1024))) == 256 * 1024 * 1024


def test_a_frame_that_streams_without_a_size_is_refused():
    compressor = zstandard.ZstdCompressor().compressobj()
    frame = compressor.compress(b"x" * 1000) + compressor.flush()
    with pytest.raises(ValueError, match="declares"):
        decompress(frame, content_bytes_max=LIMIT)


def test_a_checksum_is_checked():
    frame = zstandard.ZstdCompressor(write_checksum=True).compress(b"x" * 1000)
    assert decompress(frame, content_bytes_max=LIMIT) == b"x" * 1000
    with pytest.raises(ValueError, match="zstd"):
        decompress(frame[:-1] + bytes([frame[-1] ^ 1]), content_bytes_max=LIMIT)


@pytest.mark.parametrize(
    "behind", [b"\x00", stored_frame(b""), stored_frame(b"x"), b"\x50\x2a\x4d\x18" + bytes(4)]
)
def test_nothing_may_follow_the_frame(behind):
    with pytest.raises(ValueError, match="zstd"):
        decompress(compress(b"x" * 100) + behind, content_bytes_max=LIMIT)
