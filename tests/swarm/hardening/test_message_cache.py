"""T10: one message id in the whole node, and a cache bounded in bytes."""

from types import SimpleNamespace

from swarmd.swarm.hardening.message_cache import BoundedMessageCache
from tests.swarm.hardening.kit import HARDENED, TOPIC, both, make_pubsub, signed_message


@both
def test_gossip_offers_the_ids_that_pubsub_knows_unless_stock(kind):
    node = make_pubsub(kind, msg_id_constructor=lambda message: b"id of " + message.data)
    message = signed_message(node)
    node.router.mcache.put(message)
    assert (node.router.mcache.window(TOPIC) == [node.pubsub.get_message_id(message)]) is (kind == HARDENED)


def cache(bytes_max=100, window=2, history=3):
    return BoundedMessageCache(window, history, lambda message: message.seqno, bytes_max)


def message(number, size=10):
    return SimpleNamespace(seqno=bytes([number]), data=bytes(size), topicIDs=[TOPIC])


def test_the_oldest_messages_make_room():
    history = cache()
    for number in range(12):
        history.put(message(number))
    assert history.size_bytes == 100
    assert history.get(b"\x01") is None
    assert history.window(TOPIC) == [bytes([number]) for number in range(2, 12)]


def test_messages_leave_the_window_then_the_cache():
    history = cache()
    history.put(message(1))
    history.shift()
    assert history.window(TOPIC) == [b"\x01"]
    history.shift()
    assert history.window(TOPIC) == []
    assert history.get(b"\x01") is not None
    history.shift()
    assert history.get(b"\x01") is None
    assert history.size_bytes == 0


def test_a_message_is_held_once():
    history = cache()
    history.put(message(1))
    history.put(message(1))
    assert history.size_bytes == 10
    assert history.window(TOPIC) == [b"\x01"]


def test_a_message_above_the_bound_is_not_held():
    history = cache()
    history.put(message(1, 101))
    assert history.size_bytes == 0


def test_other_topics_are_not_offered():
    history = cache()
    history.put(message(1))
    assert history.window("other topic") == []
