"""T13: messages in a row, and what a peer too slow costs us."""

import pytest
import trio
from libp2p.pubsub.pb import rpc_pb2

from swarmd.swarm.hardening import Verdict, outbound_queue
from swarmd.swarm.hardening.outbound_queue import ByteBoundedQueue
from tests.swarm.hardening.kit import HARDENED, LONG_S, TOPIC, becomes, both, connect_in_topic, running


@both
async def test_a_hundred_messages_in_a_row_arrive_unless_stock(kind):
    arrived = []
    async with running(kind) as sender, running(kind, router={"spam_protection_enabled": False}) as receiver:
        sender.router.spam_protection_enabled = False
        await connect_in_topic(sender, receiver)
        receiver.pubsub.notify_subscriptions = arrived.append
        for _ in range(100):
            await sender.pubsub.publish(TOPIC, b"x" * 32_000)
        everything = await becomes(lambda: len(arrived) == 100, expected=kind == HARDENED)
    assert everything is (kind == HARDENED)


def rpc(size):
    return rpc_pb2.RPC(publish=[rpc_pb2.Message(data=bytes(size))])


def queue(data_bytes_max=1000):
    return ByteBoundedQueue(rpc_bytes_max=1000, data_bytes_max=data_bytes_max)


async def test_data_is_bounded_in_bytes_and_control_comes_first():
    waiting = queue()
    assert waiting.push(rpc(900))
    assert not waiting.push(rpc(200))
    assert waiting.push(rpc(200), priority=True)
    sizes = [len((await waiting.pop()).publish[0].data) for _ in range(2)]
    assert sizes == [200, 900]
    assert waiting.data_bytes == 0


async def test_control_is_bounded_in_number(monkeypatch):
    monkeypatch.setattr(outbound_queue, "CONTROL_RPCS_MAX", 2)
    waiting = queue()
    assert [waiting.push(rpc(1), priority=True) for _ in range(3)] == [True, True, False]


async def test_a_closed_queue_is_emptied_then_over():
    waiting = queue()
    waiting.push(rpc(1))
    waiting.close()
    assert not waiting.push(rpc(1))
    assert await waiting.pop() is not None
    assert await waiting.pop() is None


async def test_a_waiting_writer_is_woken():
    waiting = queue()
    with trio.fail_after(LONG_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waiting.pop)
            await trio.testing.wait_all_tasks_blocked()
            waiting.push(rpc(1))


async def test_a_frozen_peer_does_not_hold_a_publisher_up():
    async with running(HARDENED) as sender, running(HARDENED) as frozen:
        await connect_in_topic(sender, frozen)
        sender.pubsub.peer_queues[frozen.peer_id] = full = queue(10)
        full.push(rpc(1))
        with trio.fail_after(LONG_S):
            assert await sender.pubsub.publish(TOPIC, b"data") is Verdict.ACCEPT
        assert sender.router.counters["queue_full"] == 1


@pytest.mark.parametrize("num_bytes", [2**20, 5 * 2**20])
@both
async def test_a_message_nobody_would_take_is_an_error_unless_stock(kind, num_bytes):
    async with running(kind) as node:
        if kind == HARDENED:
            with pytest.raises(ValueError, match="at most"):
                await node.pubsub.publish(TOPIC, bytes(num_bytes))
        else:
            assert await node.pubsub.publish(TOPIC, bytes(num_bytes)) is None


async def test_our_own_validator_is_reported():
    async def refuse(forwarder, message):
        return Verdict.REJECT

    async with running(HARDENED) as node:
        node.pubsub.set_validator(TOPIC, refuse)
        assert await node.pubsub.publish(TOPIC, b"data") is Verdict.REJECT


async def test_what_waits_is_taken_together_control_first_and_within_a_bound():
    waiting = queue(10_000)
    for size in (1000, 3000, 2000, 500):
        assert waiting.push(rpc(size))
    assert waiting.push(rpc(7), priority=True)

    async def sizes(bytes_max):
        return [len(found.publish[0].data) for found in await waiting.pop_some(bytes_max)]

    assert await sizes(5000) == [7, 1000, 3000]
    assert await sizes(100) == [2000]  # one in any case
    assert await sizes(5000) == [500]
    assert waiting.data_bytes == 0
    waiting.close()
    assert await waiting.pop_some(5000) == []
