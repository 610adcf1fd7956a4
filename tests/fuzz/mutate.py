"""Changes bytes at random, for runs that are counted rather than led by coverage: the same seed gives the same inputs."""

import random
from collections.abc import Sequence


def mutated(rng: random.Random, seeds: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """One of the seeds after up to four changes, few more often than many."""
    data = bytearray(seeds[int(rng.random() * len(seeds))])
    for _ in range(int(5 * rng.random() ** 2)):
        CHANGES[int(rng.random() * len(CHANGES))](rng, data, seeds, words)
    return bytes(data)


def _flip(rng: random.Random, data: bytearray, seeds: Sequence[bytes], words: Sequence[bytes]) -> None:
    if data:
        data[int(rng.random() * len(data))] ^= 1 << int(rng.random() * 8)


def _replace(rng: random.Random, data: bytearray, seeds: Sequence[bytes], words: Sequence[bytes]) -> None:
    if data:
        data[int(rng.random() * len(data))] = int(rng.random() * 256)


def _insert(rng: random.Random, data: bytearray, seeds: Sequence[bytes], words: Sequence[bytes]) -> None:
    at = int(rng.random() * (len(data) + 1))
    data[at:at] = words[int(rng.random() * len(words))]


def _remove(rng: random.Random, data: bytearray, seeds: Sequence[bytes], words: Sequence[bytes]) -> None:
    first, last = _span(rng, data)
    del data[first:last]


def _repeat(rng: random.Random, data: bytearray, seeds: Sequence[bytes], words: Sequence[bytes]) -> None:
    first, last = _span(rng, data)
    data[first:first] = data[first:last] * (1 + int(rng.random() * 4))


def _splice(rng: random.Random, data: bytearray, seeds: Sequence[bytes], words: Sequence[bytes]) -> None:
    other = seeds[int(rng.random() * len(seeds))]
    data[int(rng.random() * (len(data) + 1)) :] = other[int(rng.random() * (len(other) + 1)) :]


def _span(rng: random.Random, data: bytearray) -> tuple[int, int]:
    """A piece of the data, short more often than long."""
    first = int(rng.random() * (len(data) + 1))
    return first, first + int((len(data) - first + 1) * rng.random() ** 3)


CHANGES = (_flip, _replace, _insert, _remove, _repeat, _splice)
