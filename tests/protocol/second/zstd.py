"""zstd frames as WIRE.md wants them (RFC 8878): the whole format but dictionaries."""

from typing import NamedTuple

from tests.protocol.second.bits import Backward
from tests.protocol.second.entropy import Fse, Huffman, fse_counts, fse_table, huffman_stream, huffman_table
from tests.protocol.second.formats import Bad, Reader
from tests.protocol.second.xxh64 import xxh64

BLOCK_BYTES_MAX = 128 * 1024
BLOCKS_MAX = 1024


class Damaged(Bad):
    """The frame's structure is right, its blocks are not what they should be."""


class Kind(NamedTuple):
    """One of the three parts of a sequence: bounds of its table, the table used by default, base and extra bits of its codes."""

    log_max: int
    default: tuple[int, list[int]]
    bases: list[int]
    extra: list[int]


def _codes(first: int, num: int, extra: list[int]) -> tuple[list[int], list[int]]:
    bases, widths = list(range(first, first + num)), [0] * num + extra
    for width in extra:
        bases.append(bases[-1] + (1 << widths[len(bases) - 1]))
        assert widths[len(bases) - 1] == width
    return bases, widths


# Section 3.1.1.3.2.1.1; each base is the one before and what its extra bits can add.
LITERALS = Kind(
    9,
    (6, [4, 3, *[2] * 11, 1, 1, 1, *[2] * 9, 3, 2, *[1] * 5, *[-1] * 4]),
    *_codes(0, 16, [1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]),
)
MATCHES = Kind(
    9,
    (6, [1, 4, 3, *[2] * 6, *[1] * 37, *[-1] * 7]),
    *_codes(3, 32, [1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]),
)
OFFSETS = Kind(
    8,
    (5, [*[1] * 6, *[2] * 3, *[1] * 15, *[-1] * 5]),
    [1 << code for code in range(32)],
    list(range(32)),
)


def zstd_content(frame: bytes, content_bytes_max: int) -> bytes:
    """The content of a frame."""
    reader = Reader(frame)
    if reader.take(4) != b"\x28\xb5\x2f\xfd":
        raise Bad("no zstd frame")
    flags = reader.number(1)
    single, checksum = flags & 32, flags & 4
    if flags & 8:
        raise Bad("the reserved bit")
    window = 0
    if not single:
        byte = reader.number(1)
        base = 1 << 10 + (byte >> 3)
        window = base + base // 8 * (byte & 7)
        if window > 8 * 1024 * 1024:
            raise Bad("a large window")
    if flags & 3 and reader.number((0, 1, 2, 4)[flags & 3], "little"):
        raise Bad("a dictionary")
    size_bytes = (1 if single else 0, 2, 4, 8)[flags >> 6]
    if size_bytes == 0:
        raise Bad("no declared size")
    size = reader.number(size_bytes, "little") + (256 if size_bytes == 2 else 0)
    if not 0 < size <= content_bytes_max:
        raise Bad("a declared size beyond the limit, or of nothing")
    block_bytes_max = min(size if single else window, BLOCK_BYTES_MAX)
    blocks = _split(reader, size, block_bytes_max)
    promised = reader.number(4, "little") if checksum else None
    if reader.place != len(frame):
        raise Bad("bytes behind the frame")
    try:
        content = _Content(size, block_bytes_max).of(blocks)
    except Bad as error:
        raise Damaged(str(error)) from None
    if len(content) != size or (promised is not None and promised != xxh64(content) & 0xFFFFFFFF):
        raise Damaged("less than declared, or another checksum")
    return content


def _split(reader: Reader, size: int, block_bytes_max: int) -> list[tuple[int, int, bytes]]:
    """Kind, length and bytes of every block."""
    blocks, num_plain, last = list[tuple[int, int, bytes]](), 0, 0
    while not last:
        head = reader.number(3, "little")
        last, kind, length = head & 1, head >> 1 & 3, head >> 3
        if kind == 3 or length > block_bytes_max or len(blocks) == BLOCKS_MAX:
            raise Bad("a reserved kind of block, a large one, or too many")
        num_plain += length if kind < 2 else 0
        if num_plain > size:
            raise Bad("more than declared")
        blocks.append((kind, length, reader.take(1 if kind == 1 else length)))
    if num_plain != size and not any(kind == 2 for kind, _, _ in blocks):
        raise Bad("less than declared")
    return blocks


class _Content:
    """The content of blocks, with what one leaves for the next: tables, offsets, and the content so far."""

    def __init__(self, size: int, block_bytes_max: int) -> None:
        self.size, self.block_bytes_max = size, block_bytes_max
        self.out = bytearray()
        self.huffman: Huffman | None = None
        self.tables: dict[str, Fse] = {}
        self.offsets = [1, 4, 8]

    def of(self, blocks: list[tuple[int, int, bytes]]) -> bytes:
        for kind, length, data in blocks:
            if kind < 2:
                self.write(data * length if kind == 1 else data)
                continue
            start = len(self.out)
            self.compressed(data)
            if len(self.out) - start > self.block_bytes_max:
                raise Bad("a block of too much content")
        return bytes(self.out)

    def write(self, data: bytes) -> None:
        if len(self.out) + len(data) > self.size:
            raise Bad("more than declared")
        self.out += data

    def compressed(self, data: bytes) -> None:
        reader = Reader(data)
        literals, place = self.literals(reader), 0
        for num_literals, num_copied, offset in self.sequences(reader):
            if num_literals > len(literals) - place:
                raise Bad("more literals than there are")
            self.write(literals[place : place + num_literals])
            place += num_literals
            self.copy(num_copied, offset)
        self.write(literals[place:])

    def copy(self, num: int, offset: int) -> None:
        if not 0 < offset <= len(self.out):
            raise Bad("an offset before the beginning")
        if len(self.out) + num > self.size:
            raise Bad("more than declared")
        period = self.out[len(self.out) - offset :]  # a copy longer than its offset runs into what it writes
        self.out += (period * (num // offset + 1))[:num]

    def literals(self, reader: Reader) -> bytes:
        head = reader.number(1)
        kind, form = head & 3, head >> 2 & 3
        if kind < 2:
            num_bytes = (0, 1, 0, 2)[form]
            more = reader.number(num_bytes, "little")
            size = head >> 3 if not num_bytes else head >> 4 | more << 4
            self.require_size(size)
            return reader.take(size) if kind == 0 else reader.take(1) * size
        width = (10, 10, 14, 18)[form]
        both = (head | reader.number((2, 2, 3, 4)[form], "little") << 8) >> 4
        size, size_packed = both & (1 << width) - 1, both >> width
        self.require_size(size)
        packed = reader.take(size_packed)
        if kind == 2:
            self.huffman, used = huffman_table(packed)
            packed = packed[used:]
        if self.huffman is None:
            raise Bad("no tree before")
        if form == 0:
            return huffman_stream(self.huffman, packed, size)
        return self.four_streams(self.huffman, packed, size)

    def require_size(self, size: int) -> None:
        if size > self.block_bytes_max:
            raise Bad("a block of too much content")

    def four_streams(self, table: Huffman, packed: bytes, size: int) -> bytes:
        reader, num = Reader(packed), (size + 3) // 4
        sizes = [reader.number(2, "little") for _ in range(3)]
        if size - 3 * num < 0 or size < 6:
            raise Bad("too few literals for four streams")
        streams = [reader.take(length) for length in sizes]
        streams.append(packed[reader.place :])
        nums = [num, num, num, size - 3 * num]
        return b"".join(
            huffman_stream(table, stream, each) for stream, each in zip(streams, nums, strict=True)
        )

    def sequences(self, reader: Reader) -> list[tuple[int, int, int]]:
        num = reader.number(1)
        if num == 255:
            num = reader.number(2, "little") + 0x7F00
        elif num >= 128:
            num = (num - 128 << 8) + reader.number(1)
        if num == 0:
            if reader.place != len(reader.data):
                raise Bad("bytes behind the last block's end")
            return []
        modes = reader.number(1)
        if modes & 3:
            raise Bad("reserved bits")
        lit = self.table("literals", LITERALS, modes >> 6, reader)
        off = self.table("offsets", OFFSETS, modes >> 4 & 3, reader)
        mat = self.table("matches", MATCHES, modes >> 2 & 3, reader)
        bits = Backward(reader.data[reader.place :])
        at_lit, at_off, at_mat = bits.take(lit.log), bits.take(off.log), bits.take(mat.log)
        found = []
        for index in range(num):
            off_code, mat_code, lit_code = off.symbols[at_off], mat.symbols[at_mat], lit.symbols[at_lit]
            value = OFFSETS.bases[off_code] + bits.take(OFFSETS.extra[off_code])
            num_copied = MATCHES.bases[mat_code] + bits.take(MATCHES.extra[mat_code])
            num_literals = LITERALS.bases[lit_code] + bits.take(LITERALS.extra[lit_code])
            if bits.left < 0:
                raise Bad("sequences that end too soon")
            found.append((num_literals, num_copied, self.offset(value, num_literals)))
            if index < num - 1:
                at_lit = lit.bases[at_lit] + bits.take(lit.num_bits[at_lit])
                at_mat = mat.bases[at_mat] + bits.take(mat.num_bits[at_mat])
                at_off = off.bases[at_off] + bits.take(off.num_bits[at_off])
        if bits.left:
            raise Bad("bits behind the last sequence")
        return found

    def offset(self, value: int, num_literals: int) -> int:
        recent = self.offsets
        if value > 3:
            self.offsets = [value - 3, recent[0], recent[1]]
            return value - 3
        place = value - 1 + (num_literals == 0)
        if place == 3:
            self.offsets = [recent[0] - 1, recent[0], recent[1]]
        elif place:
            self.offsets = [recent[place], *(recent[i] for i in range(3) if i != place)]
        return self.offsets[0]

    def table(self, name: str, kind: Kind, mode: int, reader: Reader) -> Fse:
        if mode == 0:
            self.tables[name] = fse_table(*kind.default)
        elif mode == 1:
            symbol = reader.number(1)
            if symbol >= len(kind.bases):
                raise Bad("a code that there is not")
            self.tables[name] = Fse(0, [symbol], [0], [0])
        elif mode == 2:
            log, counts, used = fse_counts(reader.data[reader.place :], kind.log_max, len(kind.bases) - 1)
            reader.take(used)
            self.tables[name] = fse_table(log, counts)
        if name not in self.tables:
            raise Bad("no table before")
        return self.tables[name]
