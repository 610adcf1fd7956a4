"""T2 and the reconnect loop: RPCs that cannot be read, or are too large."""

import pytest
import trio
from libp2p.pubsub.pb import rpc_pb2

from swarmd.swarm.hardening import Verdict
from tests.swarm.hardening.kit import (
    HARDENED,
    LONG_S,
    SHORT_S,
    STOCK,
    TOPIC,
    becomes,
    both,
    connect,
    connect_in_topic,
    running,
    send_raw,
    send_rpc,
    signed_message,
    survives,
)

MALFORMED = [b"\x05hello", b"\x03\x0a\xff\xff", b"\x04\x12\x02\xff\xff"]


@both
@pytest.mark.parametrize("data", MALFORMED, ids=lambda data: data.hex())
async def test_host_outlives_a_malformed_rpc_unless_stock(kind, data):
    async def deed(victim, peer):
        await send_raw(peer, victim, data)

    assert await survives(kind, deed) is (kind == HARDENED)


@pytest.mark.parametrize(
    "data", [b"\xff" * 12, b"\xff\xff\xff\xff\x07", b"\x80"], ids=lambda data: data.hex()
)
async def test_bad_length_prefixes_are_survived(data):
    async def deed(victim, peer):
        await send_raw(peer, victim, data)

    assert await survives(HARDENED, deed)


@both
async def test_an_oversized_rpc_is_sent_again_and_again_unless_hardened(kind):
    """Both ends of one kind; only the receiver has the small limit."""
    slow = {"heartbeat_interval": 100}  # the message stays in the sender's cache
    async with (
        running(kind, max_inbound_rpc_size=20_000, router=slow) as receiver,
        running(kind, router=slow) as sender,
    ):
        await connect_in_topic(receiver, sender)
        num_streams = []
        read = receiver.pubsub.continuously_read_stream

        async def counted(stream):
            num_streams.append(stream)
            await read(stream)

        receiver.pubsub.continuously_read_stream = counted
        with trio.fail_after(5):
            await sender.pubsub.publish(TOPIC, b"x" * 700_000)
        loops = await becomes(lambda: len(num_streams) > 3, LONG_S if kind == STOCK else SHORT_S)
    assert loops is (kind == STOCK)


async def test_the_third_unreadable_rpc_closes_the_connection():
    async with running(HARDENED) as victim, running(HARDENED) as peer:
        await connect(peer, victim)
        for _ in range(3):
            await send_raw(peer, victim, b"\x05hello")
        assert await becomes(lambda: peer.peer_id not in victim.host.get_connected_peers())
        assert victim.pubsub.counters["misframed_rpc"] == 3
        assert victim.pubsub.counters["peer_closed"] == 1


async def test_a_flood_of_subscriptions_is_refused_and_counted():
    async with running(HARDENED, max_subscriptions_per_rpc=10) as victim, running(HARDENED) as peer:
        await connect(peer, victim)
        rpc = rpc_pb2.RPC(subscriptions=[{"subscribe": True, "topicid": str(n)} for n in range(11)])
        await send_rpc(peer, victim, rpc)
        assert await becomes(lambda: victim.pubsub.counters["too_many_subscriptions"] == 1)
        assert not victim.pubsub.peer_topics


async def test_a_slow_validator_slows_the_reader_down_and_loses_nothing():
    async with running(HARDENED, validation_timeout=10) as receiver, running(HARDENED) as sender:
        go, num_waiting, judged = trio.Event(), [], []

        async def slow(forwarder, message):
            num_waiting.append(message)
            await go.wait()
            judged.append(message)
            return Verdict.ACCEPT

        receiver.pubsub.set_validator(TOPIC, slow)
        await receiver.pubsub.subscribe(TOPIC)
        await connect(sender, receiver)
        rpc = rpc_pb2.RPC(publish=[signed_message(sender) for _ in range(40)])
        await send_rpc(sender, receiver, rpc)
        assert await becomes(lambda: len(num_waiting) == 16)
        go.set()
        assert await becomes(lambda: len(judged) == 40)
