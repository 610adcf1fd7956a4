"""Every field of an RPC, at its bound and one past it."""

import pytest
from libp2p.pubsub.pb import rpc_pb2
from libp2p.utils import encode_uvarint

from swarmd.swarm.hardening import gossip_repair, replay, rpc_bounds
from swarmd.swarm.hardening.rpc_bounds import OutOfBounds, check
from tests.swarm.hardening.kit import (
    HARDENED,
    STOCK,
    TOPIC,
    becomes,
    both,
    connect_in_topic,
    running,
    send_rpc,
    signed_message,
)

OTHER = "/another/swarm"


def message(**fields):
    """A message with every field as the swarm's own nodes send it."""
    usual = {
        "from_id": bytes(38),
        "seqno": bytes(8),
        "topicIDs": [TOPIC],
        "signature": bytes(64),
        "key": bytes(36),
        "data": bytes(60_000),
    }
    return {name: value for name, value in {**usual, **fields}.items() if value is not None}


def publish(**fields):
    return {"publish": [message(**fields)]}


def control(**lists):
    return {"control": lists}


def subscriptions(num):
    return {"subscriptions": [{"subscribe": True, "topicid": str(n)} for n in range(num)]}


def ids(kind, num, size=46):
    half = num // 2
    return control(**{kind: [{"messageIDs": [bytes(size)] * part} for part in (half, num - half)]})


def prunes(*num_peers):
    return control(prune=[{"peers": [{"peerID": b"p"}] * num} for num in num_peers])


CASES = [
    ("publish", {"publish": [message(data=b"")] * 128}, {"publish": [message(data=b"")] * 129}),
    ("publish.topicIDs", publish(), publish(topicIDs=[])),
    ("publish.topicIDs", publish(), publish(topicIDs=[TOPIC, TOPIC])),
    ("publish.topicIDs", publish(), publish(topicIDs=[TOPIC, OTHER])),
    ("publish.topicIDs", publish(), publish(topicIDs=[OTHER])),
    ("publish.from", publish(), publish(from_id=bytes(39))),
    ("publish.from", publish(), publish(from_id=None)),
    ("publish.seqno", publish(), publish(seqno=bytes(9))),
    ("publish.seqno", publish(), publish(seqno=bytes(7))),
    ("publish.signature", publish(), publish(signature=bytes(65))),
    ("publish.signature", publish(), publish(signature=None)),
    ("publish.key", publish(key=None), publish(key=bytes(37))),
    ("publish.key", publish(), publish(key=bytes(35))),
    ("senderRecord", {"senderRecord": bytes(8192)}, {"senderRecord": bytes(8193)}),
    ("subscriptions", subscriptions(256), subscriptions(257)),
    ("control.graft", control(graft=[{}] * 4), control(graft=[{}] * 5)),
    ("control.prune", control(prune=[{}] * 4), control(prune=[{}] * 5)),
    ("control.prune.peers", prunes(64), prunes(65)),
    ("control.prune.peers", prunes(32, 32), prunes(32, 33)),
    *[
        case
        for kind in ("ihave", "iwant", "idontwant")
        for case in (
            (f"control.{kind}", control(**{kind: [{}] * 16}), control(**{kind: [{}] * 17})),
            (f"control.{kind}.messageIDs", ids(kind, 5000), ids(kind, 5001)),
            (f"control.{kind}.messageIDs", ids(kind, 2, size=128), ids(kind, 2, size=129)),
            (f"control.{kind}.messageIDs", ids(kind, 2, size=1), ids(kind, 2, size=0)),
        )
    ],
]


@pytest.mark.parametrize(("field", "within", "past"), CASES, ids=[case[0] for case in CASES])
def test_a_field_may_be_at_its_bound_and_no_further(field, within, past):
    check(rpc_pb2.RPC(**within), {TOPIC})
    with pytest.raises(OutOfBounds, match=f"^{field}$"):
        check(rpc_pb2.RPC(**past), {TOPIC})


@pytest.mark.parametrize("size", [1, 30, 50_000])
@pytest.mark.parametrize("number", [7, 1000])
def test_a_message_carries_nothing_beside_its_fields(number, size):
    unknown = encode_uvarint(number << 3 | 2) + encode_uvarint(size) + bytes(size)
    carrier = rpc_pb2.Message.FromString(rpc_pb2.Message(**message()).SerializeToString() + unknown)
    with pytest.raises(OutOfBounds, match=r"^publish\.unknown$"):
        check(rpc_pb2.RPC(publish=[carrier]), {TOPIC})


def test_fields_of_later_versions_beside_the_messages_are_let_be():
    later = encode_uvarint(10 << 3 | 2) + b"\x03new"
    check(rpc_pb2.RPC.FromString(rpc_pb2.RPC(**publish()).SerializeToString() + later), {TOPIC})
    check(rpc_pb2.RPC(control=rpc_pb2.ControlMessage.FromString(later)), {TOPIC})


def test_a_long_topic_leaves_no_room_for_more():
    topic = "t" * 300
    check(rpc_pb2.RPC(**publish(topicIDs=[topic])), {topic})


@both
async def test_a_message_of_many_topics_is_passed_on_by_stock_alone(kind):
    many = [TOPIC, *map(str, range(1000))]
    async with running(kind) as victim, running(HARDENED) as peer, running(STOCK) as third:
        await connect_in_topic(victim, third)
        await connect_in_topic(victim, peer)
        arrived = []
        third.pubsub.notify_subscriptions = arrived.append
        await send_rpc(peer, victim, rpc_pb2.RPC(publish=[signed_message(peer, topics=many)]))
        assert await becomes(lambda: bool(arrived), expected=kind == STOCK) is (kind == STOCK)


@pytest.mark.parametrize("past", [past for _, _, past in CASES], ids=[case[0] for case in CASES])
async def test_every_field_out_of_bounds_is_a_strike(past):
    async with running(HARDENED, allowed_topics={TOPIC}) as victim, running(HARDENED) as peer:
        accused = []
        victim.pubsub.accuse = lambda *found: accused.append(found)
        await connect_in_topic(victim, peer)
        await send_rpc(peer, victim, rpc_pb2.RPC(**past))
        assert await becomes(lambda: victim.pubsub.counters["rpc_out_of_bounds"] == 1)
        assert accused == [(peer.peer_id, "broken_rpc")]


def test_the_bounds_hold_what_a_node_itself_asks_for():
    assert gossip_repair.IWANT_PER_BEAT_MAX < rpc_bounds.MESSAGES_MAX
    assert replay.OFFER_IDS_MAX < rpc_bounds.IDS_MAX
