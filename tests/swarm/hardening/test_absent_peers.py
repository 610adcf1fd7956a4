"""Whoever has left is in no table of the router: also who never took our stream, and whose last words are read after it left."""

from contextlib import asynccontextmanager

from libp2p.peer.peerinfo import PeerInfo
from libp2p.pubsub.gossipsub import PROTOCOL_ID_V12
from libp2p.pubsub.pb import rpc_pb2
from libp2p.utils import encode_varint_prefixed

from tests.swarm.hardening.kit import HARDENED, TOPIC, becomes, connect_in_topic, make_host, running

LAST_WORDS = rpc_pb2.RPC(
    subscriptions=[{"subscribe": True, "topicid": TOPIC}],
    control={"graft": [{"topicID": TOPIC}], "idontwant": [{"messageIDs": [b"id"]}]},
)


@asynccontextmanager
async def ghost(victim):
    """A connected host that takes no pubsub stream."""
    host, _ = make_host(HARDENED)
    async with host.run(listen_addrs=[]):
        await host.connect(PeerInfo(victim.peer_id, victim.host.get_addrs()))
        yield host
        await host.disconnect(victim.peer_id)


def noted(node):
    """The names of the tables that hold notes of peers."""
    router, scorer = node.router, node.router.scorer
    tables = {
        "mesh": router.mesh[TOPIC],
        "idontwant": router.dont_send_message_ids,
        "subscribers": node.pubsub.peer_topics.get(TOPIC),
        "records": node.pubsub._last_record,
        "time in the mesh": scorer.time_in_mesh,
        "behaviour": scorer.behavior_penalty,
        "deliveries": scorer.first_message_deliveries,
        "rejects": scorer.invalid_messages,
    }
    return {name for name, table in tables.items() if table}


async def test_a_peer_that_never_took_our_stream_is_forgotten_when_it_leaves():
    async with running(HARDENED) as victim:
        await victim.pubsub.subscribe(TOPIC)
        async with ghost(victim) as host:
            stream = await host.new_stream(victim.peer_id, [PROTOCOL_ID_V12])
            await stream.write(encode_varint_prefixed(LAST_WORDS.SerializeToString()))
            assert await becomes(lambda: host.get_id() in victim.router.mesh[TOPIC])
        assert await becomes(lambda: not noted(victim))


async def test_what_a_peer_said_last_is_forgotten_when_it_is_read_after_it_left():
    async with running(HARDENED) as victim, running(HARDENED) as gone:
        await victim.pubsub.subscribe(TOPIC)
        victim.pubsub._handle_subscriptions(gone.peer_id, LAST_WORDS.subscriptions)
        await victim.router.handle_rpc(LAST_WORDS, gone.peer_id)
        assert "mesh" in noted(victim)
        assert await becomes(lambda: not noted(victim))


async def test_who_is_connected_keeps_its_place():
    async with running(HARDENED) as victim, running(HARDENED) as peer:
        await connect_in_topic(victim, peer)
        victim.router.forget_expired()
        assert peer.peer_id in victim.router.mesh[TOPIC]
        assert peer.peer_id in victim.pubsub.peers
