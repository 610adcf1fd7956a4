"""Changes to a tree of values, read off a fuzzer's bytes: replace, remove, double, add; never an error, whatever the bytes."""

import copy
import struct
from collections.abc import Callable, Iterator
from typing import Any

EDITS_MAX = 8
SIZE_MAX = 300_000  # a little more than `body_bytes_max` of the shipped manifests
KEYS = (
    "version",
    "author",
    "policy",
    "swarm",
    "rollouts",
    "dataset",
    "counter",
    "completions",
    "text",
    "finished",
)
MORE_KEYS = ("logprob_sum", "num_tokens", "reward", "x", "", "created_ms")
EDGES = (
    0,
    1,
    2,
    3,
    7,
    8,
    31,
    32,
    63,
    64,
    65,
    127,
    128,
    255,
    256,
    257,
    1023,
    1024,
    1025,
    4095,
    4096,
    16384,
    16385,
)
MORE_EDGES = (
    65535,
    65536,
    65537,
    2**20,
    2**20 + 1,
    10**9,
    10**9 + 1,
    2**31,
    2**32,
    2**53 - 1,
    2**53,
    2**63,
    2**64 - 1,
)


class Taker:
    """Takes values off the front of bytes; zeros once they end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 0

    @property
    def empty(self) -> bool:
        """Whether nothing is left."""
        return self._place >= len(self._data)

    def number(self, size: int) -> int:
        """An unsigned number of `size` bytes."""
        piece = self._data[self._place : self._place + size]
        self._place += size
        return int.from_bytes(piece, "big")

    def byte(self) -> int:
        """One byte."""
        return self.number(1)

    def bytes(self, size: int | None = None) -> bytes:
        """`size` bytes, or as many as the next byte says."""
        size = self.byte() if size is None else size
        piece = self._data[self._place : self._place + size]
        self._place += size
        return piece

    def rest(self) -> bytes:
        """Everything that is left."""
        return self.bytes(max(0, len(self._data) - self._place))


def edited(tree: dict[str, Any], taker: Taker) -> Any:
    """The tree with up to EDITS_MAX changes."""
    root = {"root": copy.deepcopy(tree)}
    for _ in range(EDITS_MAX):
        if taker.empty:
            break
        _edit(root, taker)
    return root["root"] if _fits(root["root"]) else tree


def _fits(value: Any) -> bool:
    """Whether the tree packs into SIZE_MAX bytes or few more. Doubled lists of doubled lists would not."""
    return _size(value, {}) <= SIZE_MAX


def _size(value: Any, known: dict[int, int]) -> int:
    """About how many bytes; what occurs a thousand times is measured once."""
    if isinstance(value, (str, bytes)):
        return len(value) + 3
    if not isinstance(value, (dict, list)):
        return 3
    if id(value) not in known:
        inner = value.values() if isinstance(value, dict) else value
        known[id(value)] = 3 + sum(_size(item, known) for item in inner)
    return known[id(value)]


def _edit(root: dict[str, Any], taker: Taker) -> None:
    places = list(_places(root))
    holder, key = places[taker.byte() % len(places)]
    action = taker.byte() % 5
    if action == 0:
        holder[key] = _value(taker)
    elif action == 1 and holder is not root:
        del holder[key]
    elif action == 2 and isinstance(holder, list):
        holder.extend([holder[key]] * min(taker.number(2), 1030))
    elif action == 3 and isinstance(holder, dict) and holder is not root:
        holder[_key(taker)] = _value(taker)
    elif action == 4 and isinstance(holder, dict) and type(holder[key]) is int:
        holder[key] = max(-(2**63), min(holder[key] + taker.byte() - 128, 2**64 - 1))  # what msgpack can say


def _places(root: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Every place in the tree, at most 128: one byte chooses."""
    left, queue = 128, [(root, "root")]
    while queue and left:
        holder, key = queue.pop(0)
        yield holder, key
        left -= 1
        value = holder[key]
        items = (
            value.keys()
            if isinstance(value, dict)
            else range(min(len(value), 4))
            if isinstance(value, list)
            else ()
        )
        queue.extend((value, inner) for inner in items)


def _key(taker: Taker) -> Any:
    choice = taker.byte()
    names = KEYS + MORE_KEYS
    return names[choice % len(names)] if choice < 240 else _value(taker, depth=9)


def _value(taker: Taker, depth: int = 0) -> Any:
    kinds = SCALARS if depth > 3 else SCALARS + CONTAINERS
    return kinds[taker.byte() % len(kinds)](taker, depth)


def _integer(taker: Taker, depth: int) -> int:
    edges = EDGES + MORE_EDGES
    number = edges[taker.byte() % len(edges)]
    return -min(number, 2**63) if taker.byte() & 1 else number


def _text(taker: Taker, depth: int) -> str:
    unit = taker.bytes(taker.byte() % 9).decode("utf-8", "replace") or "x"
    edges = (*EDGES, 65535, 65536, 65537)
    return unit * (edges[taker.byte() % len(edges)] // len(unit) + (taker.byte() & 1))


def _bytes(taker: Taker, depth: int) -> bytes:
    return bytes([taker.byte()]) * EDGES[taker.byte() % len(EDGES)]


def _list(taker: Taker, depth: int) -> list[Any]:
    value, num = _value(taker, depth + 1), taker.byte()
    return [value] * (num if num < 250 else 1025)


def _map(taker: Taker, depth: int) -> dict[Any, Any]:
    return {_key(taker): _value(taker, depth + 1) for _ in range(taker.byte() % 18)}


def _deep(taker: Taker, depth: int) -> Any:
    value: Any = None
    for _ in range(taker.byte() // 4):  # deeper ones are made of bytes: Python's own packer gives up at 512
        value = [value]
    return value


Maker = Callable[[Taker, int], Any]
SCALARS: tuple[Maker, ...] = (
    _integer,
    _text,
    _bytes,
    lambda taker, depth: None,
    lambda taker, depth: bool(taker.byte() & 1),
    lambda taker, depth: struct.unpack(">d", taker.bytes(8).ljust(8, b"\0"))[0],
    lambda taker, depth: float((EDGES + MORE_EDGES)[taker.byte() % 36]),
    lambda taker, depth: struct.unpack(">q", taker.bytes(8).ljust(8, b"\0"))[0],
)
CONTAINERS: tuple[Maker, ...] = (_list, _map, _deep)
