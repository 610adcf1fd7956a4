"""Bits as RFC 8878 reads them: forwards from the lowest bit, or backwards from a last byte whose highest bit marks the end."""

from tests.protocol.second.formats import Bad


class Forward:
    """From the first byte on, lowest bit first."""

    def __init__(self, data: bytes) -> None:
        self._number, self._num_bits, self.place = int.from_bytes(data, "little"), 8 * len(data), 0

    def take(self, num: int) -> int:
        """The next bits as a number."""
        if self.place + num > self._num_bits:
            raise Bad("a table that ends too soon")
        self.place += num
        return self._number >> self.place - num & (1 << num) - 1

    def back(self, num: int) -> None:
        """Give bits back."""
        self.place -= num

    @property
    def num_bytes(self) -> int:
        """Bytes used, the last one perhaps in part."""
        return (self.place + 7) // 8


class Backward:
    """From the last byte back. `left` is the number of bits that are left, below zero once more were taken; those are zero."""

    def __init__(self, data: bytes) -> None:
        if not data or not data[-1]:
            raise Bad("a stream without its end mark")
        self._number = int.from_bytes(data, "little")
        self.left = self._number.bit_length() - 1
        self._number -= 1 << self.left

    def take(self, num: int) -> int:
        """The next bits as a number."""
        self.left -= num
        shifted = self._number >> self.left if self.left >= 0 else self._number << -self.left
        return shifted & (1 << num) - 1
