"""FSE and Huffman decoding (RFC 8878, section 4)."""

from typing import NamedTuple

from tests.protocol.second.bits import Backward, Forward
from tests.protocol.second.formats import Bad


class Fse(NamedTuple):
    """A decoding table: for each state its symbol, how many bits to read next, and what to add to them."""

    log: int
    symbols: list[int]
    num_bits: list[int]
    bases: list[int]


def fse_counts(data: bytes, log_max: int, symbol_max: int) -> tuple[int, list[int], int]:
    """A table's description (4.1.1): its log, the counts of the symbols, and the bytes it took."""
    bits = Forward(data)
    log = bits.take(4) + 5
    if log > log_max:
        raise Bad("a table larger than allowed")
    left, counts = 1 << log, list[int]()
    while left > 0:
        num = (left + 1).bit_length()
        value, low = bits.take(num), (1 << num - 1) - 1
        threshold = (1 << num) - 1 - (left + 1)
        if value & low < threshold:
            bits.back(1)
            value &= low
        elif value > low:
            value -= threshold
        counts.append(value - 1)
        left -= abs(value - 1)
        while value == 1 and len(counts) <= symbol_max + 1:  # a count of zero: how many more follow
            repeat = bits.take(2)
            counts += [0] * repeat
            if repeat < 3:
                break
    if left or len(counts) > symbol_max + 1:
        raise Bad("counts that do not fill the table")
    return log, counts, bits.num_bytes


def fse_table(log: int, counts: list[int]) -> Fse:
    """The decoding table of the counts."""
    size = 1 << log
    symbols, high = [0] * size, size
    for symbol, count in enumerate(counts):
        if count == -1:
            high -= 1
            symbols[high] = symbol
    place = 0
    for symbol, count in enumerate(counts):
        for _ in range(max(count, 0)):
            symbols[place] = symbol
            place = place + (size >> 1) + (size >> 3) + 3 & size - 1
            while place >= high:
                place = place + (size >> 1) + (size >> 3) + 3 & size - 1
    if place:
        raise Bad("counts that do not fill the table")
    next_state = [abs(count) for count in counts]
    num_bits, bases = [], []
    for symbol in symbols:
        state = next_state[symbol]
        next_state[symbol] += 1
        num_bits.append(log + 1 - state.bit_length())
        bases.append((state << num_bits[-1]) - size)
    return Fse(log, symbols, num_bits, bases)


class Huffman(NamedTuple):
    """A decoding table: for each number of `log` bits the symbol that it begins with, and how many bits that has."""

    log: int
    symbols: list[int]
    num_bits: list[int]


def huffman_table(data: bytes) -> tuple[Huffman, int]:
    """A tree's description (4.2.1) as a table, and the bytes it took."""
    if not data:
        raise Bad("no tree")
    head = data[0]
    if head >= 128:
        num = head - 127
        used = 1 + (num + 1) // 2
        if len(data) < used:
            raise Bad("a tree that ends too soon")
        weights = [data[1 + i // 2] >> (0 if i % 2 else 4) & 15 for i in range(num)]
    else:
        used = 1 + head
        if len(data) < used:
            raise Bad("a tree that ends too soon")
        weights = _weights(data[1:used])
    return _huffman_of(weights), used


def huffman_stream(table: Huffman, data: bytes, num: int) -> bytes:
    """`num` symbols, which take all of the bits."""
    bits, out = Backward(data), bytearray()
    state = bits.take(table.log)
    for _ in range(num):
        if bits.left <= -table.log:
            raise Bad("a stream of too few symbols")
        out.append(table.symbols[state])
        used = table.num_bits[state]
        state = (state << used) + bits.take(used) & (1 << table.log) - 1
    if bits.left != -table.log:
        raise Bad("a stream of too many symbols")
    return bytes(out)


def _weights(data: bytes) -> list[int]:
    log, counts, used = fse_counts(data, 6, 255)
    table, bits = fse_table(log, counts), Backward(data[used:])
    states, weights, turn = [bits.take(log), bits.take(log)], list[int](), 0
    if bits.left < 0:
        raise Bad("weights that end too soon")
    while True:
        state = states[turn]
        weights.append(table.symbols[state])
        states[turn] = table.bases[state] + bits.take(table.num_bits[state])
        turn = 1 - turn
        if bits.left < 0:
            return [*weights, table.symbols[states[turn]]]
        if len(weights) > 255:
            raise Bad("too many weights")


def _huffman_of(weights: list[int]) -> Huffman:
    total = sum(1 << weight - 1 for weight in weights if weight)
    log = total.bit_length()
    left = (1 << log) - total
    if not total or len(weights) > 255 or log > 11 or left & left - 1:
        raise Bad("weights that make no tree")
    weights = [*weights, left.bit_length()]
    symbols, num_bits = [], []
    for weight in range(1, log + 1):  # the lightest first: their numbers begin with zeros
        for symbol, own in enumerate(weights):
            if own == weight:
                symbols += [symbol] * (1 << weight - 1)
                num_bits += [log + 1 - weight] * (1 << weight - 1)
    if len(symbols) != 1 << log:
        raise Bad("weights that make no tree")
    return Huffman(log, symbols, num_bits)
