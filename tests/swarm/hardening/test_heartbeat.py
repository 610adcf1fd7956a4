"""T5, T6, and a heartbeat that goes on."""

import pytest
import trio
import trio.lowlevel

from tests.swarm.hardening.kit import (
    HARDENED,
    STOCK,
    TOPIC,
    becomes,
    both,
    connect_in_topic,
    make_pubsub,
    running,
    signed_message,
)


@both
def test_a_small_mesh_does_not_slow_the_heartbeat_down_unless_stock(kind):
    router = make_pubsub(kind).router
    router.mesh = {TOPIC: set()}
    router.last_health_update = 0
    router._update_network_health()
    router._adapt_gossip_parameters()
    assert (router.heartbeat_interval >= 30) is (kind == STOCK)


@both
async def test_fast_messages_are_forwarded_unless_stock(kind):
    received = []
    async with running(kind) as receiver, running(kind) as sender:
        subscription, _ = await connect_in_topic(receiver, sender)

        async def read():
            async for message in subscription:
                received.append(message)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            for _ in range(30):
                await sender.pubsub.publish(TOPIC, b"data")
                await trio.lowlevel.checkpoint()
            everything = await becomes(lambda: len(received) == 30, expected=kind == HARDENED)
            nursery.cancel_scope.cancel()
    assert everything is (kind == HARDENED)


@both
async def test_a_failing_beat_does_not_end_the_router_unless_stock(kind):
    num_beats = 0

    def fail():
        nonlocal num_beats
        num_beats += 1
        raise KeyError("bug")

    async def live():
        async with running(kind, router={"heartbeat_interval": 0.02}) as node:
            node.router.fanout_heartbeat = fail
            await becomes(lambda: num_beats >= 3)
            return num_beats

    if kind == STOCK:
        with pytest.raises(ExceptionGroup):
            await live()
        assert num_beats == 1
    else:
        assert await live() >= 3


async def test_the_steps_after_a_failing_one_still_run():
    async with running(HARDENED, router={"heartbeat_interval": 0.02}) as node:
        node.router.mcache.put(signed_message(node))
        node.router.fanout_heartbeat = node.router.gossip_heartbeat = None
        assert await becomes(lambda: not node.router.mcache.msgs)
        assert node.router.counters["heartbeat_error"] > 0
