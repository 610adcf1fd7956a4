"""T17, T18: what a newcomer is sent."""

from libp2p.pubsub.pb import rpc_pb2

from tests.swarm.hardening.kit import (
    HARDENED,
    STOCK,
    TOPIC,
    becomes,
    both,
    connect,
    connect_in_topic,
    make_pubsub,
    running,
)

NUM_MESSAGES = 5


@both
async def test_a_newcomer_gets_each_recent_message_once_unless_stock(kind):
    slow = {"heartbeat_interval": 100}
    async with (
        running(kind, router=slow) as one,
        running(kind, router=slow) as other,
        running(kind, router=slow) as newcomer,
    ):
        await connect_in_topic(one, other)
        for number in range(NUM_MESSAGES):
            await one.pubsub.publish(TOPIC, bytes([number]) * 1000)
        assert await becomes(lambda: len(other.router.mcache.msgs) == NUM_MESSAGES)
        copies, push = [], newcomer.pubsub.push_msg

        async def counted(forwarder, message):
            copies.append(message.data)
            await push(forwarder, message)

        newcomer.pubsub.push_msg = counted
        await newcomer.pubsub.subscribe(TOPIC)
        await connect(newcomer, one)
        await connect(newcomer, other)
        assert await becomes(lambda: len(set(copies)) == NUM_MESSAGES)
        several = await becomes(lambda: len(copies) > NUM_MESSAGES, expected=kind == STOCK)
    assert several is (kind == STOCK)


@both
async def test_nothing_is_stored_for_peers_outside_the_topic_unless_stock(kind):
    async with running(kind) as one, running(kind) as other:
        await connect(one, other)
        await one.pubsub.publish(TOPIC, b"data")
        assert bool(one.router._pending_messages) is (kind == STOCK)


async def test_an_offer_that_comes_before_our_stream_stands_is_taken_up_later():
    node, asked = make_pubsub(HARDENED), []
    node.router.mesh[TOPIC] = set()

    async def emit(wanted, peer):
        asked.extend(wanted)

    node.router.emit_iwant = emit
    offer = rpc_pb2.ControlIHave(topicID=TOPIC, messageIDs=[b"id"])
    await node.router.handle_ihave(offer, "peer")
    assert asked == []
    node.pubsub.peer_queues["peer"] = object()
    await node.router.flush_pending_messages("peer")
    assert asked == [b"id"]


async def test_early_offers_are_bounded_and_forgotten():
    node = make_pubsub(HARDENED)
    node.router.mesh[TOPIC] = set()
    for number in range(100):
        offer = rpc_pb2.ControlIHave(topicID=TOPIC, messageIDs=[b"id"] * 1000)
        await node.router.handle_ihave(offer, number)
    assert len(node.router._offers_waiting) == 64
    assert {len(offer.messageIDs) for offer in node.router._offers_waiting.values()} == {200}
    node.router.forget_expired()
    assert not node.router._offers_waiting


async def test_an_empty_cache_is_not_offered():
    node = make_pubsub(HARDENED)
    node.router.emit_ihave = None
    await node.router.send_recent_messages("peer", TOPIC)
