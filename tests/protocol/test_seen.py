"""The memory of what came; `tests/test_recent.py` has what it shares with every table that forgets."""

from swarmd.protocol.seen import CAPACITY, Seen


def test_asking_does_not_remember():
    seen = Seen()
    assert b"a" not in seen
    assert len(seen) == 0


def test_adding_again_does_not_make_a_key_younger():
    seen = Seen(capacity=2)
    for key in (b"a", b"b", b"a", b"c"):
        seen.add(key)
    assert [key in seen for key in (b"a", b"b", b"c")] == [False, True, True]


def test_it_is_bounded_unless_told_otherwise():
    assert Seen().entries_max == CAPACITY
