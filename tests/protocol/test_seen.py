"""The bounded memory of what came before; `tests/test_recent.py` has what it shares with every table that forgets."""

from swarmd.protocol.seen import CAPACITY, Seen

FOREVER = 10**15


def test_only_what_was_added_is_seen() -> None:
    seen = Seen()
    assert b"a" not in seen
    seen.add(b"a", now_ms=0, until_ms=1)
    assert b"a" in seen


def test_the_oldest_is_forgotten_first() -> None:
    seen = Seen(capacity=2)
    for key in (b"a", b"b", b"a", b"c"):
        seen.add(key, now_ms=0, until_ms=FOREVER)
    assert (b"a" in seen, b"b" in seen, b"c" in seen) == (False, True, True)


def test_what_cannot_come_again_is_forgotten() -> None:
    seen = Seen()
    for number in range(10_000):
        seen.add(number.to_bytes(4, "big"), now_ms=number, until_ms=number + 100)
    assert len(seen) == 101
    assert (9_899).to_bytes(4, "big") in seen
    assert (9_898).to_bytes(4, "big") not in seen


def test_a_clock_that_goes_back_forgets_nothing_early() -> None:
    seen = Seen()
    seen.add(b"late", now_ms=1_000, until_ms=1_100)
    seen.add(b"early", now_ms=0, until_ms=100)
    seen.add(b"later", now_ms=500, until_ms=600)
    assert len(seen) == 3


def test_the_default_bound_is_the_one_documented() -> None:
    assert Seen().entries_max == CAPACITY
