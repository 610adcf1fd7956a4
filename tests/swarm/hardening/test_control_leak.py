"""T15: to each peer its own control messages."""

import pytest

from tests.swarm.hardening.kit import HARDENED, STOCK, both, connect, make_router, running


async def emitted(kind, grafts, prunes, gossip):
    """What each peer is sent: peer -> (grafts, prunes, offered topics)."""
    router, sent = make_router(kind), {}

    async def record(control, peer):
        sent[peer] = (
            [graft.topicID for graft in control.graft],
            [prune.topicID for prune in control.prune],
            [ihave.topicID for ihave in control.ihave],
        )

    router.emit_control_message = record
    await router._emit_control_msgs(grafts, prunes, gossip)
    return sent


@both
@pytest.mark.parametrize("column", [0, 1, 2], ids=["graft", "prune", "ihave"])
async def test_nothing_leaks_from_one_peer_to_the_next_unless_stock(kind, column):
    grafts = {"one": ["a"], "two": ["b"]}
    others = {"one": {"a": [b"id"]}, "two": {"b": [b"id"]}}
    prunes = {peer: list(topics) for peer, topics in others.items()}
    sent = await emitted(kind, grafts, prunes if column == 1 else {}, others if column == 2 else {})
    assert sent["one"][column] == ["a"]
    assert (sent["two"][column] == ["b"]) is (kind == HARDENED)


async def test_each_peer_is_sent_one_message():
    sent = await emitted(
        HARDENED, {"one": ["a"]}, {"one": ["b"]}, {"one": {"c": [b"id"]}, "two": {"c": [b"id"]}}
    )
    assert sent == {"one": (["a"], ["b"], ["c"]), "two": ([], [], ["c"])}


@both
async def test_control_messages_carry_no_address_record_unless_stock(kind):
    async with running(kind) as one, running(HARDENED) as other:
        await connect(one, other)
        queued = []
        one.pubsub.peer_queues[other.peer_id].push = lambda rpc, priority=False: queued.append(rpc) or True
        await one.router.emit_graft("topic", other.peer_id)
        assert queued[0].HasField("senderRecord") is (kind == STOCK)
