"""T19: the seen cache."""

import threading

from swarmd.swarm.hardening.seen_cache import SeenCache
from tests.swarm.hardening.kit import STOCK, both, make_pubsub


@both
def test_a_pubsub_leaves_no_thread_behind_unless_stock(kind):
    before = threading.active_count()
    node = make_pubsub(kind)
    leaves = threading.active_count() > before
    node.pubsub.seen_messages.stop()
    assert leaves is (kind == STOCK)


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


def test_looking_does_not_renew():
    clock = Clock()
    cache = SeenCache(10, clock=clock)
    assert cache.add(b"id")
    clock.now_s = 9.0
    assert cache.has(b"id")
    assert not cache.add(b"id")
    clock.now_s = 11.0
    assert not cache.has(b"id")
    assert cache.add(b"id")


def test_expired_ids_are_swept():
    clock = Clock()
    cache = SeenCache(10, clock=clock)
    for number in range(5):
        cache.add(bytes([number]))
    clock.now_s = 11.0
    cache.add(b"new")
    assert cache.length() == 1


def test_the_number_of_ids_is_bounded():
    cache = SeenCache(10, ids_max=3, clock=Clock())
    for number in range(5):
        cache.add(bytes([number]))
    assert cache.length() == 3
    assert not cache.has(b"\x01")
    assert cache.has(b"\x04")
