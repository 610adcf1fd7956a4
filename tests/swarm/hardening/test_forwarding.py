"""IDONTWANT: for large messages of others only."""

import pytest

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
