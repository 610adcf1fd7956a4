"""Address records: verified when they change, refused when they are forged."""

import libp2p.pubsub.utils
from libp2p.peer.envelope import consume_envelope
from libp2p.peer.peerstore import env_to_send_in_RPC
from libp2p.pubsub.pb import rpc_pb2

from tests.swarm.hardening.kit import (
    HARDENED,
    STOCK,
    TOPIC,
    becomes,
    both,
    connect,
    connect_in_topic,
    running,
    send_rpc,
)


@both
async def test_records_are_not_verified_for_each_message_unless_stock(kind, monkeypatch):
    num_verified, arrived = [], []

    def counted(*args):
        num_verified.append(args)
        return consume_envelope(*args)

    async with running(kind) as one, running(kind) as other:
        await connect_in_topic(one, other)
        other.pubsub.notify_subscriptions = arrived.append
        monkeypatch.setattr(libp2p.pubsub.utils, "consume_envelope", counted)
        for _ in range(8):
            await one.pubsub.publish(TOPIC, b"data")
        assert await becomes(lambda: len(arrived) == 8)
    assert (len(num_verified) >= 8) is (kind == STOCK)
    assert (len(num_verified) <= 2) is (kind == HARDENED)


async def test_another_peers_record_is_refused_with_the_rpc():
    async with running(HARDENED) as victim, running(HARDENED) as peer, running(HARDENED) as somebody:
        await connect(peer, victim)
        record, _ = env_to_send_in_RPC(somebody.host)
        rpc = rpc_pb2.RPC(senderRecord=record, subscriptions=[{"subscribe": True, "topicid": TOPIC}])
        await send_rpc(peer, victim, rpc)
        assert await becomes(lambda: victim.pubsub.counters["bad_sender_record"] == 1)
        assert TOPIC not in victim.pubsub.peer_topics


async def test_a_garbled_record_is_refused():
    async with running(HARDENED) as victim, running(HARDENED) as peer:
        await connect(peer, victim)
        await send_rpc(peer, victim, rpc_pb2.RPC(senderRecord=b"garbage"))
        assert await becomes(lambda: victim.pubsub.counters["bad_sender_record"] == 1)


async def test_a_record_is_forgotten_with_its_peer():
    async with running(HARDENED) as victim, running(HARDENED) as peer:
        await connect(peer, victim)
        assert await becomes(lambda: peer.peer_id in victim.pubsub._last_record)
        await peer.host.disconnect(victim.peer_id)
        assert await becomes(lambda: not victim.pubsub._last_record)
