"""Score term P7."""

from tests.swarm.hardening.kit import HARDENED, both, connect, running


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
