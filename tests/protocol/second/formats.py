"""msgpack, as far as `proto/` needs it."""

import struct
from typing import Any


class Bad(Exception):
    """These bytes are to be refused."""


class Reader:
    """Takes bytes off the front."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.place:
            raise Bad("ends too soon")
        self.place += size
        return self.data[self.place - size : self.place]

    def number(self, size: int, order: Any = "big") -> int:
        return int.from_bytes(self.take(size), order)


class Msgpack(Reader):
    """One value, with the demands of WIRE.md."""

    ENTRIES_MAX, ELEMENTS_MAX, BYTES_MAX = 16, 1024, 64

    def __init__(self, data: bytes, maps_max: int) -> None:
        super().__init__(data)
        self.maps_left = maps_max

    def whole(self) -> dict[str, Any]:
        value = self.value(0)
        if self.place != len(self.data) or type(value) is not dict:
            raise Bad("not one map")
        return value

    def value(self, depth: int) -> Any:
        kind = self.number(1)
        if depth > 64:
            raise Bad("too deep")
        if kind < 0x80:
            return kind
        if kind < 0x90:
            return self.map(kind & 15, depth)
        if kind < 0xA0:
            return self.array(kind & 15, depth)
        if kind < 0xC0:
            return self.text(kind & 31)
        if kind >= 0xE0:
            return kind - 256
        if kind in (0xC0, 0xC2, 0xC3):
            return {0xC0: None, 0xC2: False, 0xC3: True}[kind]
        if kind in (0xC4, 0xC5, 0xC6):
            size = self.number(1 << kind - 0xC4)
            if size > self.BYTES_MAX:
                raise Bad("long bytes")
            return self.take(size)
        if kind in (0xCA, 0xCB):
            return struct.unpack(">f" if kind == 0xCA else ">d", self.take(4 << kind - 0xCA))[0]
        if 0xCC <= kind <= 0xCF:
            return self.number(1 << kind - 0xCC)
        if 0xD0 <= kind <= 0xD3:
            return int.from_bytes(self.take(1 << kind - 0xD0), "big", signed=True)
        if kind in (0xD9, 0xDA, 0xDB):
            return self.text(self.number(1 << kind - 0xD9))
        if kind in (0xDC, 0xDD):
            return self.array(self.number(2 << kind - 0xDC), depth)
        if kind in (0xDE, 0xDF):
            return self.map(self.number(2 << kind - 0xDE), depth)
        raise Bad("an extension, or the byte that is never used")

    def text(self, size: int) -> str:
        try:
            return self.take(size).decode()
        except UnicodeDecodeError:
            raise Bad("no UTF-8") from None

    def array(self, num: int, depth: int) -> list[Any]:
        if num > self.ELEMENTS_MAX:
            raise Bad("a long array")
        return [self.value(depth + 1) for _ in range(num)]

    def map(self, num: int, depth: int) -> dict[str, Any]:
        self.maps_left -= 1
        if num > self.ENTRIES_MAX or self.maps_left < 0:
            raise Bad("a large map, or too many")
        result: dict[str, Any] = {}
        for _ in range(num):
            key = self.value(depth + 1)
            if type(key) is not str or key in result:
                raise Bad("a key that is no text, or came before")
            result[key] = self.value(depth + 1)
        return result
