"""One registration per peer."""

import trio
from libp2p.host.exceptions import StreamFailure
from libp2p.peer.peerinfo import PeerInfo

from swarmd.swarm.hardening import peer_streams
from tests.swarm.hardening.kit import HARDENED, LONG_S, STOCK, TOPIC, becomes, both, connect, running


async def idle(peer_id):
    pass


@both
async def test_registering_twice_opens_one_stream_unless_stock(kind):
    async with running(kind) as one, running(HARDENED) as other:
        one.pubsub._handle_new_peer_with_retry = idle  # registering is left to the test
        await one.host.connect(PeerInfo(other.peer_id, other.host.get_addrs()))
        num_senders, send = [], one.pubsub.handle_sending_messages

        async def counted(peer_id, stream, queue):
            num_senders.append(stream)
            await send(peer_id, stream, queue)

        one.pubsub.handle_sending_messages = counted
        with trio.fail_after(LONG_S):
            async with trio.open_nursery() as nursery:
                for _ in range(2):
                    nursery.start_soon(one.pubsub._handle_new_peer, other.peer_id)
        await trio.testing.wait_all_tasks_blocked()
        assert len(num_senders) == (2 if kind == STOCK else 1)


@both
async def test_a_subscription_made_during_the_hello_is_not_lost_unless_stock(kind):
    async with running(kind) as one, running(HARDENED) as other:
        hello = one.pubsub.get_hello_packet

        def subscribe_meanwhile():
            packet = hello()
            one.pubsub.manager.run_task(one.pubsub.subscribe, TOPIC)
            return packet

        one.pubsub.get_hello_packet = subscribe_meanwhile
        await connect(one, other)
        told = await becomes(lambda: TOPIC in other.pubsub.peer_topics, expected=kind == HARDENED)
    assert told is (kind == HARDENED)


async def test_a_peer_that_takes_nothing_any_more_is_left(monkeypatch):
    monkeypatch.setattr(peer_streams, "WRITE_S_MAX", 0.2)
    async with running(HARDENED) as one, running(HARDENED) as frozen, running(HARDENED) as sound:
        for other in (frozen, sound):
            await connect(one, other)

        async def never(data):
            await trio.sleep_forever()

        one.pubsub.peers[frozen.peer_id].write = never
        await one.pubsub.subscribe(TOPIC)  # which is told to everybody
        network = one.host.get_network()
        assert await becomes(lambda: set(one.pubsub.peers) == set(one.pubsub.peer_queues) == {sound.peer_id})
        assert await becomes(lambda: frozen.peer_id not in network.connections)
        assert one.pubsub.counters["peer_stalled"] == 1
        assert await becomes(lambda: TOPIC in sound.pubsub.peer_topics)


@both
async def test_the_end_of_an_old_stream_leaves_the_new_one_alone_unless_stock(kind):
    async with running(kind) as one, running(HARDENED) as other:
        await connect(one, other)

        class Broken:
            muxed_conn = one.pubsub.peers[other.peer_id].muxed_conn

            async def write(self, data):
                raise OSError

        removed, remove = [], one.router.remove_peer
        one.router.remove_peer = lambda peer: (removed.append(peer), remove(peer))
        queue = type(one.pubsub.peer_queues[other.peer_id])
        old = queue() if kind == STOCK else queue(rpc_bytes_max=1000)
        old.push(one.pubsub.get_hello_packet())
        await one.pubsub.handle_sending_messages(other.peer_id, Broken(), old)
        assert bool(removed) is (kind == STOCK)


@both
async def test_a_peer_too_busy_to_negotiate_is_asked_again_unless_stock(kind):
    async with running(kind) as one, running(HARDENED) as other:
        num_tries, open_stream = [], one.host.new_stream

        async def fail_once(peer_id, protocols):
            if protocols == one.pubsub.protocols:
                num_tries.append(peer_id)
                if len(num_tries) == 1:
                    raise StreamFailure
            return await open_stream(peer_id, protocols)

        one.host.new_stream = fail_once
        await one.host.connect(PeerInfo(other.peer_id, other.host.get_addrs()))
        registered = await becomes(lambda: other.peer_id in one.pubsub.peers, expected=kind == HARDENED)
    assert registered is (kind == HARDENED)


async def test_blocking_a_peer_forgets_it():
    async with running(HARDENED) as one, running(HARDENED) as other:
        await connect(one, other)
        one.pubsub.add_to_blacklist(other.peer_id)
        assert await becomes(lambda: other.peer_id not in one.pubsub.peers)
        assert other.peer_id not in one.pubsub.peer_queues
        assert other.peer_id not in one.router.peer_protocol


async def test_blocking_an_absent_peer_is_no_error():
    async with running(HARDENED) as one, running(HARDENED) as other:
        await one.pubsub._teardown_if_connected(other.peer_id)
        assert one.pubsub.manager.is_running
