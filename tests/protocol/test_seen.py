"""The memory of what came: exact within its bound, forgetting the oldest."""

import pytest

from swarmd.protocol.seen import Seen


def test_a_key_is_new_once():
    seen = Seen()
    assert seen.check_and_add(b"a")
    assert not seen.check_and_add(b"a")
    assert b"a" in seen


def test_asking_does_not_remember():
    seen = Seen()
    assert b"a" not in seen
    assert len(seen) == 0


def test_the_oldest_is_forgotten_first():
    seen = Seen(capacity=2)
    for key in (b"a", b"b", b"c"):
        seen.add(key)
    assert [key in seen for key in (b"a", b"b", b"c")] == [False, True, True]


def test_adding_again_does_not_make_a_key_younger():
    seen = Seen(capacity=2)
    for key in (b"a", b"b", b"a", b"c"):
        seen.add(key)
    assert b"a" not in seen


def test_it_never_holds_more_than_its_capacity():
    seen = Seen(capacity=100)
    for number in range(1000):
        seen.check_and_add(number.to_bytes(4, "big"))
    assert len(seen) == 100


def test_no_capacity_is_refused():
    with pytest.raises(ValueError, match="capacity"):
        Seen(capacity=0)
