"""T11 and T2: a message is judged once, and nothing a message carries ends the host."""

import pytest
import trio
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2

from swarmd.swarm.hardening import Verdict
from tests.swarm.hardening.kit import (
    HARDENED,
    LONG_S,
    STOCK,
    TOPIC,
    both,
    running,
    send_rpc,
    signed_message,
    survives,
)


def set_slow_validator(node, release):
    """An accepting validator that waits for `release`, in each kind's own way."""

    async def stock(forwarder, message):
        await release.wait()
        return True

    async def hardened(forwarder, message):
        await release.wait()
        return Verdict.ACCEPT

    if hasattr(node.pubsub, "set_validator"):
        node.pubsub.set_validator(TOPIC, hardened)
    else:
        node.pubsub.set_topic_validator(TOPIC, stock, True)


@both
async def test_copies_during_validation_are_delivered_once_unless_stock(kind):
    release, delivered = trio.Event(), []
    async with running(kind) as node, running(kind) as author:
        set_slow_validator(node, release)
        await node.pubsub.subscribe(TOPIC)
        node.pubsub.notify_subscriptions = delivered.append
        message = signed_message(author)
        with trio.fail_after(LONG_S):
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(node.pubsub.push_msg, author.peer_id, message)
                await trio.testing.wait_all_tasks_blocked()
                release.set()
    assert len(delivered) == (3 if kind == STOCK else 1)


async def test_a_forged_copy_cannot_block_the_true_message():
    release, delivered = trio.Event(), []
    async with running(HARDENED) as node, running(HARDENED) as author:
        set_slow_validator(node, release)
        await node.pubsub.subscribe(TOPIC)
        node.pubsub.notify_subscriptions = delivered.append
        true = signed_message(author)
        forged = rpc_pb2.Message()
        forged.CopyFrom(true)
        forged.data = b"forged"
        forged.signature = bytes(64)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.pubsub.push_msg, author.peer_id, forged)
            nursery.start_soon(node.pubsub.push_msg, author.peer_id, true)
            release.set()
        assert [message.data for message in delivered] == [b"data"]
        assert node.pubsub.counters["bad_signature"] == 1


async def test_two_signed_contents_under_one_number_are_delivered_once():
    release, delivered = trio.Event(), []
    async with running(HARDENED) as node, running(HARDENED) as author:
        set_slow_validator(node, release)
        await node.pubsub.subscribe(TOPIC)
        node.pubsub.notify_subscriptions = delivered.append
        one = signed_message(author, b"one")
        author.pubsub.counter -= 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.pubsub.push_msg, author.peer_id, one)
            nursery.start_soon(node.pubsub.push_msg, author.peer_id, signed_message(author, b"two"))
            await trio.testing.wait_all_tasks_blocked()
            release.set()
        assert len(delivered) == 1
        assert node.pubsub.counters["equivocation"] == 1


@both
@pytest.mark.parametrize("key", [b"garbage", b"\x08\x01\x12\x02no"], ids=["not-a-key", "not-ed25519"])
async def test_host_outlives_a_garbage_key_unless_stock(kind, key):
    async def deed(victim, peer):
        await victim.pubsub.subscribe(TOPIC)
        message = signed_message(peer)
        message.from_id = ID(
            b"\x12\x20" + bytes(32)
        ).to_bytes()  # a hash: no key inside, so the field is looked at
        message.key = key
        await send_rpc(peer, victim, rpc_pb2.RPC(publish=[message]))

    assert await survives(kind, deed) is (kind == HARDENED)


@both
async def test_host_outlives_a_failing_sync_validator_unless_stock(kind):
    def validator(forwarder, message):
        raise KeyError("bug")

    async def deed(victim, peer):
        victim.pubsub.set_topic_validator(TOPIC, validator, False)
        await victim.pubsub.subscribe(TOPIC)
        await send_rpc(peer, victim, rpc_pb2.RPC(publish=[signed_message(peer)]))

    assert await survives(kind, deed) is (kind == HARDENED)


async def test_our_own_message_coming_back_is_an_echo_not_a_delivery():
    async with running(HARDENED) as node, running(HARDENED) as peer:
        await node.pubsub.subscribe(TOPIC)
        assert await node.pubsub.judge(peer.peer_id, signed_message(node)) is Verdict.IGNORE
        assert node.pubsub.counters["echo"] == 1


async def test_a_blocked_author_is_not_heard_through_others():
    async with running(HARDENED) as node, running(HARDENED) as author, running(HARDENED) as forwarder:
        node.pubsub.add_to_blacklist(author.peer_id)
        assert await node.pubsub.judge(forwarder.peer_id, signed_message(author)) is Verdict.IGNORE
        assert node.pubsub.counters["blacklisted"] == 1
