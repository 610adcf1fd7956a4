"""The size of the mesh over many beats."""

from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.peer.id import ID
from libp2p.pubsub.gossipsub import PROTOCOL_ID_V12

from tests.swarm.hardening.kit import HARDENED, STOCK, TOPIC, both, make_pubsub


def router_among(kind, num_peers, num_mesh):
    """A router that knows so many subscribers, some of them in its mesh."""
    router = make_pubsub(kind).router
    peers = [ID.from_pubkey(create_new_key_pair().public_key) for _ in range(num_peers)]
    router.pubsub.peer_topics = {TOPIC: set(peers)}
    router.peer_protocol = dict.fromkeys(peers, PROTOCOL_ID_V12)
    router.mesh = {TOPIC: set(peers[:num_mesh])}
    return router


@both
def test_a_mesh_that_is_large_enough_grows_no_further_unless_stock(kind):
    router = router_among(kind, num_peers=15, num_mesh=8)
    for _ in range(20):
        router.mesh_heartbeat()
    assert (len(router.mesh[TOPIC]) > 8) is (kind == STOCK)


def test_a_mesh_that_is_too_small_is_filled_up_to_the_degree():
    router = router_among(HARDENED, num_peers=15, num_mesh=4)
    router.mesh_heartbeat()
    assert len(router.mesh[TOPIC]) == router.degree


def test_a_mesh_that_is_too_large_is_cut_down_to_the_degree():
    router = router_among(HARDENED, num_peers=30, num_mesh=20)
    router.mesh_heartbeat()
    assert len(router.mesh[TOPIC]) == router.degree
