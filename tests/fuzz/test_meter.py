"""The meter: what is kept counts as memory, what was given back does not."""

from tests.fuzz.meter import resident_bytes

MB = 10**6


def test_memory_that_is_kept_is_seen_and_memory_that_is_free_is_not() -> None:
    before = resident_bytes()
    # pieces of many sizes, as messages have them, below the size that is mapped for itself
    kept = [bytes([number % 256]) * (1000 + number * 37 % 100_000) for number in range(2000)]
    after = resident_bytes()
    size = sum(map(len, kept))
    pinned = kept[::100]  # what stays between keeps the rest from being given back at once
    del kept
    freed = resident_bytes()
    assert after - before > 0.9 * size > 50 * MB
    assert freed - before < 0.2 * size
    assert sum(map(len, pinned)) < 0.02 * size
