"""The bound holds: a bomb costs what was promised, and a frame is one whole frame."""

import io
import tracemalloc

import pytest
import zstandard

from swarmd.protocol.compression import BLOCKS_MAX, DamagedBlocks, compress, decompress
from tests.protocol.craft import block, stored_frame
from tests.protocol.match_cases import one_sequence, reaching_frame
from tests.protocol.second.zstd import Damaged, zstd_content

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
    with pytest.raises(ValueError, match=r"a block of kind 1|more content|declares"):
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
    with pytest.raises(DamagedBlocks):
        decompress(frame[:-1] + bytes([frame[-1] ^ 1]), content_bytes_max=LIMIT)


@pytest.mark.parametrize(
    "behind", [b"\x00", stored_frame(b""), stored_frame(b"x"), b"\x50\x2a\x4d\x18" + bytes(4)]
)
def test_nothing_may_follow_the_frame(behind):
    with pytest.raises(ValueError, match="after the frame"):
        decompress(compress(b"x" * 100) + behind, content_bytes_max=LIMIT)


def test_a_block_longer_than_the_format_allows_is_refused_though_libzstd_takes_it():
    frame = stored_frame(b"", declared=BLOCK + 1, blocks=block(1, BLOCK + 1, b"x"))
    assert len(zstandard.decompress(frame)) == BLOCK + 1
    with pytest.raises(ValueError, match="a block of kind 1 and 131073 bytes"):
        decompress(frame, content_bytes_max=2 * BLOCK)


def test_there_is_a_limit_to_the_number_of_blocks():
    def of(num: int) -> bytes:
        blocks = block(0, 1, b"x", last=False) * (num - 1) + block(0, 1, b"x")
        return stored_frame(b"", declared=num, blocks=blocks)

    assert decompress(of(BLOCKS_MAX), content_bytes_max=LIMIT) == b"x" * BLOCKS_MAX
    with pytest.raises(ValueError, match="blocks"):
        decompress(of(BLOCKS_MAX + 1), content_bytes_max=LIMIT)


def test_a_compressor_that_flushes_often_stays_far_below_the_number_of_blocks():
    lines = [b"<answer>%d</answer>\n" % i for i in range(BLOCKS_MAX // 2)]
    compressor = zstandard.ZstdCompressor().compressobj(size=sum(map(len, lines)))
    frame = b"".join(
        compressor.compress(line) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for line in lines
    )
    frame += compressor.flush()
    assert decompress(frame, content_bytes_max=LIMIT) == b"".join(lines)


@pytest.mark.parametrize("offset", [1025, 2600, 5000])
def test_a_match_reaches_beyond_the_window_and_a_ring_of_its_size_does_not_show_it(offset):
    frame = reaching_frame(offset)
    content = decompress(frame, content_bytes_max=LIMIT)
    assert len(content) > offset > 1024
    head = b"\x28\xb5\x2f\xfd\xa0" + len(content).to_bytes(
        4, "little"
    )  # a single segment: the window is the content
    assert streamed(head + frame[8:]) == content
    try:
        assert (streamed(frame) == content) == (offset == 1025)
    except zstandard.ZstdError:
        assert offset == 5000


@pytest.mark.parametrize(("num_copied", "is_taken"), [(1030, True), (1500, False)])
def test_libzstd_takes_a_compressed_block_of_a_little_too_much_content(num_copied, is_taken):
    """RULES.md, body_blocks: it is damaged, and decoders may take it all the same."""
    copying = one_sequence(b"abc", 500, num_copied)
    content = bytes(i * i % 251 for i in range(1024)) + b"abc"
    content += (content[-500:] * 4)[:num_copied]
    blocks = block(0, 1024, content[:1024], last=False) + block(2, len(copying), copying)
    frame = b"\x28\xb5\x2f\xfd\x40\x00" + (len(content) - 256).to_bytes(2, "little") + blocks
    with pytest.raises(Damaged):
        zstd_content(frame, LIMIT)
    if is_taken:
        assert decompress(frame, content_bytes_max=LIMIT) == content
    else:
        with pytest.raises(DamagedBlocks):
            decompress(frame, content_bytes_max=LIMIT)


def streamed(frame: bytes) -> bytes:
    """By libzstd's streaming interface, as a ring of the window's size."""
    reader, content = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(frame), read_size=1), b""
    while piece := reader.read(1000):
        content += piece
    return content


@pytest.mark.parametrize("content", [b"x" * 999 + b"y", b"naive text, naive words, naive text again" * 20])
def test_only_compressed_blocks_can_be_damaged(content):
    frame = compress(content)
    verdicts = set()
    for place in range(4, len(frame)):
        for bit in range(8):
            broken = frame[:place] + bytes([frame[place] ^ 1 << bit]) + frame[place + 1 :]
            try:
                decompress(broken, content_bytes_max=LIMIT)
            except ValueError as error:
                verdicts.add(type(error))
    assert verdicts == {ValueError, DamagedBlocks}


def test_stored_and_repeated_blocks_are_never_damaged():
    frame = stored_frame(b"", declared=8, blocks=block(0, 4, b"abcd", last=False) + block(1, 4, b"x"))
    assert decompress(frame, content_bytes_max=LIMIT) == b"abcdxxxx"
    for place in range(len(frame)):
        for bit in range(8):
            broken = frame[:place] + bytes([frame[place] ^ 1 << bit]) + frame[place + 1 :]
            try:
                decompress(broken, content_bytes_max=LIMIT)
            except DamagedBlocks:
                # two bits that make a block compressed, and the one that promises a checksum
                assert bit in (1, 2)
            except ValueError:
                continue
