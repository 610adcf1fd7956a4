"""T12: how far a subscriber may lag."""

import trio

from swarmd.swarm.hardening import subscription_channel
from tests.swarm.hardening.kit import HARDENED, STOCK, TOPIC, both, running, signed_message


def take_all(subscription):
    messages = []
    while True:
        try:
            messages.append(subscription.receive_channel.receive_nowait())
        except trio.WouldBlock:
            return messages


@both
async def test_a_hundred_messages_wait_for_a_busy_subscriber_unless_stock(kind):
    async with running(kind) as node:
        subscription = await node.pubsub.subscribe(TOPIC)
        for _ in range(100):
            node.pubsub.notify_subscriptions(signed_message(node))
        assert len(take_all(subscription)) == (32 if kind == STOCK else 100)


async def test_what_does_not_fit_is_counted(monkeypatch):
    monkeypatch.setattr(subscription_channel, "CHANNEL_MESSAGES", 2)
    async with running(HARDENED) as node:
        await node.pubsub.subscribe(TOPIC)
        for _ in range(5):
            node.pubsub.notify_subscriptions(signed_message(node))
        assert node.pubsub.counters["subscriber_lagged"] == 3


async def test_subscribing_twice_is_one_subscription():
    async with running(HARDENED) as node:
        assert await node.pubsub.subscribe(TOPIC) is await node.pubsub.subscribe(TOPIC)


async def test_messages_of_other_topics_are_not_handed_over():
    async with running(HARDENED) as node:
        subscription = await node.pubsub.subscribe(TOPIC)
        node.pubsub.notify_subscriptions(signed_message(node, topics=["other topic"]))
        assert take_all(subscription) == []
