"""Bytes of connections, and addresses in IPv6."""

from contextlib import asynccontextmanager

import trio
from libp2p.io.trio import TrioTCPStream

from swarmd.swarm.hardening.wire_bytes import BYTES_IN, BYTES_OUT, remote_address
from tests.swarm.hardening.kit import HARDENED, TOPIC, becomes, connect_in_topic, running


async def test_what_one_end_writes_the_other_reads():
    async with running(HARDENED) as receiver, running(HARDENED) as sender:
        subscription, _ = await connect_in_topic(receiver, sender)
        before = dict(receiver.counters), dict(sender.counters)
        await sender.pubsub.publish(TOPIC, bytes(50_000))
        await subscription.get()
        assert receiver.counters[BYTES_IN] - before[0][BYTES_IN] >= 50_000
        assert await becomes(lambda: receiver.counters[BYTES_IN] == sender.counters[BYTES_OUT])
        assert await becomes(lambda: receiver.counters[BYTES_OUT] == sender.counters[BYTES_IN])
        assert sender.counters[BYTES_OUT] - before[1][BYTES_OUT] < 55_000


@asynccontextmanager
async def over_ipv6():
    """The two ends of a connection on ::1."""
    (listener,) = await trio.open_tcp_listeners(0, host="::1")
    ours = await trio.open_tcp_stream("::1", listener.socket.getsockname()[1])
    theirs = await listener.accept()
    async with listener, ours, theirs:
        yield ours, theirs


async def test_a_peer_over_ipv6_has_an_address():
    async with over_ipv6() as (ours, theirs):
        stream = TrioTCPStream(theirs)
        assert stream.get_remote_address() is None  # the defect
        assert remote_address(stream) == ours.socket.getsockname()[:2]


async def test_the_address_of_a_connection_that_is_closed_is_no_error():
    async with over_ipv6() as (_, theirs):
        await theirs.aclose()
        assert remote_address(TrioTCPStream(theirs)) is None
