"""identify: of what a stranger says, nothing is kept."""

import contextlib

import pytest
from libp2p.identity import update
from libp2p.identity.identify.identify import ID
from libp2p.identity.identify.pb.identify_pb2 import Identify
from libp2p.identity.identify_push.identify_push import ID_PUSH
from libp2p.network.stream.exceptions import StreamError
from libp2p.peer.peerstore import PeerStoreError
from libp2p.utils import encode_varint_prefixed
from multiaddr import Multiaddr

from swarmd.swarm.hardening import identify
from tests.swarm.hardening.kit import HARDENED, STOCK, becomes, both, connect, running

OBSERVED = Multiaddr("/ip4/203.0.113.7/tcp/4901").to_bytes()


@both
async def test_a_push_leaves_nothing_behind_unless_stock(kind):
    kept = update._safe_parse_multiaddr_cached
    kept.cache_clear()
    async with running(kind) as victim, running(HARDENED) as peer:
        await connect(peer, victim)
        stream = await peer.host.new_stream(victim.peer_id, [ID_PUSH])
        push = Identify(listen_addrs=[bytes(100_000)] * 2).SerializeToString()
        with contextlib.suppress(StreamError):  # reset while it is written
            await stream.write(encode_varint_prefixed(push))
        assert await becomes(lambda: kept.cache_info().hits > 0, expected=kind == STOCK) is (kind == STOCK)


async def test_an_answer_leaves_nothing_behind():
    async with running(HARDENED) as victim, running(HARDENED) as peer:

        async def answer(stream):
            await stream.write(encode_varint_prefixed(Identify(listen_addrs=[OBSERVED]).SerializeToString()))
            await stream.close()

        peer.host.set_stream_handler(ID, answer)
        await connect(peer, victim)
        assert await becomes(lambda: peer.peer_id in victim.host._identified_peers)
        known = []
        with contextlib.suppress(PeerStoreError):  # nothing at all is known of the peer
            known = victim.host.get_peerstore().addrs(peer.peer_id)
        assert OBSERVED not in [address.to_bytes() for address in known]


@pytest.mark.parametrize(("size", "num_failed"), [(0, 0), (1, 1)], ids=["at the bound", "one past it"])
async def test_an_answer_has_a_bound(size, num_failed):
    async with running(HARDENED) as victim, running(HARDENED) as peer:

        async def answer(stream):
            await stream.write(encode_varint_prefixed(padded(identify.ANSWER_BYTES_MAX + size)))
            await stream.close()

        peer.host.set_stream_handler(ID, answer)
        await connect(peer, victim)
        assert await becomes(lambda: peer.peer_id in victim.host._identified_peers)
        assert victim.counters["identify_failed"] == num_failed


def padded(size):
    """An answer of exactly this size."""
    answer = Identify(observed_addr=OBSERVED, agent_version="")
    answer.agent_version = "a" * (size - answer.ByteSize() - 1)
    answer.agent_version = "a" * (len(answer.agent_version) - (answer.ByteSize() - size))
    assert answer.ByteSize() == size
    return answer.SerializeToString()


@pytest.mark.parametrize(
    ("observed", "read"),
    [
        (OBSERVED, True),
        (b"", False),
        (b"\xff" * 20, False),
        (OBSERVED * (identify.OBSERVED_BYTES_MAX // len(OBSERVED)), True),
        (OBSERVED * (identify.OBSERVED_BYTES_MAX // len(OBSERVED) + 1), False),
    ],
    ids=["good", "none", "garbage", "long", "too long"],
)
def test_an_observed_address_is_read_within_its_bound(observed, read):
    answer = Identify(observed_addr=observed).SerializeToString()
    assert (identify.observed_address(answer) is not None) is read


def test_an_answer_that_is_none_has_no_observed_address():
    assert identify.observed_address(b"\xff\xff") is None
