"""IDONTWANT: for large messages of others only. Own messages go beside the mesh as well, others' do not."""

import pytest

from swarmd.swarm.hardening.forwarding import BESIDE_MESH_BYTES_MAX
from tests.swarm.hardening.kit import (
    HARDENED,
    STOCK,
    TOPIC,
    becomes,
    both,
    connect,
    connect_in_topic,
    running,
)


async def notes_for(kind, size, *, from_other):
    """How many IDONTWANTs the middle one of three nodes sends when a message comes by, or when it publishes one."""
    async with running(kind) as middle, running(HARDENED) as left, running(HARDENED) as right:
        await connect_in_topic(middle, left)
        await right.pubsub.subscribe(TOPIC)
        await connect(middle, right)
        await middle.pubsub.wait_for_mesh(right.peer_id, TOPIC)
        notes, emit = [], middle.router.emit_control_message

        async def counted(control, peer):
            notes.extend(control.idontwant)
            await emit(control, peer)

        middle.router.emit_control_message = counted
        arrived = []
        right.pubsub.notify_subscriptions = arrived.append
        await (left if from_other else middle).pubsub.publish(TOPIC, bytes(size))
        assert await becomes(lambda: arrived)
        return len(notes)


@both
@pytest.mark.parametrize(("size", "from_other"), [(100, True), (100, False), (20_000, False)])
async def test_useless_notes_are_not_sent_unless_stock(kind, size, from_other):
    num = await notes_for(kind, size, from_other=from_other)
    assert (num > 0) is (kind == STOCK)


async def test_a_large_message_of_another_is_announced_to_those_who_may_not_have_it():
    assert await notes_for(HARDENED, 20_000, from_other=True) == 1


async def sent_to(kind, *, from_other):
    """Whom the middle one of three sends a message to that it publishes, or passes on, while its mesh is empty."""
    slow = {"heartbeat_interval": 100}  # a beat would fill the mesh again
    async with (
        running(kind, router=slow) as middle,
        running(HARDENED) as left,
        running(HARDENED) as right,
    ):
        await connect_in_topic(middle, left)
        await right.pubsub.subscribe(TOPIC)
        await connect(middle, right)
        await middle.pubsub.wait_for_mesh(right.peer_id, TOPIC)

        async def stay_out(*_):
            """A GRAFT may still be on its way; it would fill the mesh again."""

        middle.router.handle_graft = stay_out
        middle.router.mesh[TOPIC].clear()
        sent, judged = set(), []

        def note(peer, rpc):
            sent.update({peer} if rpc.publish else ())

        middle.router.send_rpc, spread = note, middle.router.publish

        async def publish(forwarder, message):
            await spread(forwarder, message)
            judged.append(message)

        middle.router.publish = publish
        await (left if from_other else middle).pubsub.publish(TOPIC, b"message")
        assert await becomes(lambda: judged)
        return sent, {left.peer_id, right.peer_id}


@both
async def test_an_own_message_reaches_those_whom_the_mesh_leaves_out_unless_stock(kind):
    sent, everybody = await sent_to(kind, from_other=False)
    assert sent == (set() if kind == STOCK else everybody)


async def test_what_others_say_goes_to_the_mesh_alone():
    sent, _ = await sent_to(HARDENED, from_other=True)
    assert sent == set()


@pytest.mark.parametrize(
    ("size", "num"), [(700, 40), (12_000, 21), (60_000, 4), (BESIDE_MESH_BYTES_MAX + 1, 0)]
)
async def test_what_goes_beside_the_mesh_is_bounded(size, num):
    async with running(HARDENED) as node:
        node.pubsub.peer_topics[TOPIC] = set(range(45))
        found = node.router._beside_mesh([TOPIC], set(range(5)), size)
        assert len(found) == num
        assert found <= set(range(5, 45))
