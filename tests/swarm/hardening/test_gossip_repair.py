"""T9: repair by IHAVE and IWANT."""

import time

import pytest
import trio
from libp2p.pubsub.pb import rpc_pb2

from swarmd.swarm.hardening import gossip_repair
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
    make_pubsub,
    running,
    send_rpc,
    signed_message,
)

FAST = {"heartbeat_interval": 0.1}


@both
async def test_peers_in_back_off_get_what_they_missed_unless_stock(kind):
    async with running(kind, router=FAST) as one, running(kind, router=FAST) as other:
        _, subscription = await connect_in_topic(one, other)
        for node, peer in ((one, other), (other, one)):  # as after a PRUNE
            node.router.back_off[TOPIC] = {peer.peer_id: int(time.time()) + 60}
            node.router.mesh[TOPIC].discard(peer.peer_id)
        await one.pubsub.publish(TOPIC, b"missed")
        repaired = False
        with trio.move_on_after(LONG_S if kind == HARDENED else SHORT_S):
            repaired = (await subscription.get()).data == b"missed"
    assert repaired is (kind == HARDENED)


async def listening(victim, peer):
    """Connect a peer whose router records the control messages it gets."""
    heard = []

    async def record(rpc, sender):
        heard.append(rpc.control)

    peer.router.handle_rpc = record
    await victim.pubsub.subscribe(TOPIC)
    await connect(peer, victim)
    return heard


def ids(num):
    return [n.to_bytes(46, "big") for n in range(1, num + 1)]


def offer(message_ids, topic=TOPIC):
    return rpc_pb2.RPC(control=rpc_pb2.ControlMessage(ihave=[{"topicID": topic, "messageIDs": message_ids}]))


@both
async def test_an_endless_offer_is_not_asked_for_in_full_unless_stock(kind):
    async with running(kind, router={"heartbeat_interval": 100}) as victim, running(HARDENED) as peer:
        heard = await listening(victim, peer)
        await send_rpc(peer, victim, offer(ids(1000)))
        await becomes(lambda: any(control.iwant for control in heard))
    num_asked = sum(len(iwant.messageIDs) for control in heard for iwant in control.iwant)
    assert num_asked == (gossip_repair.IWANT_PER_BEAT_MAX if kind == HARDENED else 1000)


@both
async def test_two_offers_are_asked_for_once_unless_stock(kind):
    async with running(kind, router={"heartbeat_interval": 100}) as victim, running(HARDENED) as peer:
        heard = await listening(victim, peer)
        for _ in range(2):
            await send_rpc(peer, victim, offer(ids(3)))
        await becomes(
            lambda: sum(len(iwant.messageIDs) for control in heard for iwant in control.iwant) == 6,
            expected=kind == STOCK,
        )
    num_asked = sum(len(iwant.messageIDs) for control in heard for iwant in control.iwant)
    assert num_asked == (3 if kind == HARDENED else 6)


@pytest.mark.parametrize(
    "rpc", [offer(ids(3), "other topic"), offer([b"x" * 1000]), offer([])], ids=["topic", "long", "empty"]
)
async def test_useless_offers_are_not_answered(rpc):
    async with running(HARDENED, router={"heartbeat_interval": 100}) as victim, running(HARDENED) as peer:
        heard = await listening(victim, peer)
        await send_rpc(peer, victim, rpc)
        assert not await becomes(lambda: any(control.iwant for control in heard), expected=False)


@both
async def test_a_message_is_served_a_few_times_only_unless_stock(kind):
    async with running(kind, router={"heartbeat_interval": 100}) as victim, running(HARDENED) as peer:
        await connect(peer, victim)
        message = signed_message(victim)
        victim.router.mcache.put(message)
        served = []
        send = victim.router.send_rpc
        victim.router.send_rpc = lambda to, rpc, priority=False: (
            served.extend(rpc.publish),
            send(to, rpc, priority),
        )
        want = rpc_pb2.ControlIWant(messageIDs=[victim.pubsub.get_message_id(message)])
        for _ in range(8):
            await victim.router.handle_iwant(want, peer.peer_id)
    assert len(served) == (gossip_repair.SERVINGS_MAX if kind == HARDENED else 8)


async def test_a_broken_promise_is_asked_of_another_peer_later(autojump_clock):
    router, asked = make_pubsub(HARDENED).router, []
    router.mesh[TOPIC] = set()

    async def emit(wanted, peer):
        asked.append(peer)

    router.emit_iwant = emit
    ihave = rpc_pb2.ControlIHave(topicID=TOPIC, messageIDs=ids(1))
    ask = gossip_repair.GossipRepair.handle_ihave
    await ask(router, ihave, "first")
    await ask(router, ihave, "second")
    await trio.sleep(gossip_repair.PROMISE_S + 1)
    await ask(router, ihave, "third")
    assert asked == ["first", "third"]
