"""Score term P7."""

from libp2p.peer.id import ID
from libp2p.pubsub.score import ScoreParams

from tests.swarm.hardening.kit import HARDENED, STOCK, TOPIC, both, connect, make_pubsub, running


@both
async def test_a_peers_address_is_known_to_the_scorer_unless_stock(kind):
    async with running(kind) as one, running(HARDENED) as other:
        await connect(one, other)
        known = one.router.scorer.ip_by_peer.get(other.peer_id) == "loopback"
    assert known is (kind == HARDENED)


async def test_an_unknown_address_is_no_error():
    async with running(HARDENED) as one, running(HARDENED) as other:
        one.router._track_peer_ip(other.peer_id)
        assert not one.router.scorer.ip_by_peer


@both
def test_a_full_network_of_honest_machines_is_not_punished_unless_stock(kind):
    params = ScoreParams(p7_ip_colocation_weight=5.0, p7_ip_colocation_threshold=8)
    router = make_pubsub(kind, router={"score_params": params}).router
    peers = [ID(f"peer {number}".encode()) for number in range(40)]
    for number, peer in enumerate(peers):
        router.scorer.add_peer_ip(peer, f"192.0.2.{number}")
    assert (router.scorer.score(peers[0], [TOPIC]) < 0) is (kind == STOCK)


def test_many_peers_of_one_machine_are_punished():
    params = ScoreParams(p7_ip_colocation_weight=5.0, p7_ip_colocation_threshold=8)
    router = make_pubsub(HARDENED, router={"score_params": params}).router
    peers = [ID(f"peer {number}".encode()) for number in range(9)]
    for peer in peers:
        router.scorer.add_peer_ip(peer, "192.0.2.1")
    assert router.scorer.score(peers[0], [TOPIC]) < 0
