"""T4: who may claim which peer id."""

import contextlib
from types import SimpleNamespace

import pytest
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.network.exceptions import SwarmException
from libp2p.peer.id import ID
from libp2p.peer.peerinfo import PeerInfo
from libp2p.security.insecure.transport import PLAINTEXT_PROTOCOL_ID, InsecureTransport

from tests.swarm.hardening.kit import ANY_PORT, HARDENED, STOCK, both, make_host, running


@both
async def test_plaintext_lets_mallory_be_alice_unless_hardened(kind):
    alice, mallory = create_new_key_pair(), create_new_key_pair()
    disguise = InsecureTransport(mallory)
    disguise.local_private_key = SimpleNamespace(get_public_key=lambda: alice.public_key)
    settings = {"sec_opt": None} if kind == STOCK else {}
    victim, _ = make_host(kind, **settings)
    attacker, _ = make_host(HARDENED, key_pair=mallory, sec_opt={PLAINTEXT_PROTOCOL_ID: disguise})
    async with victim.run(listen_addrs=[ANY_PORT]), attacker.run(listen_addrs=[ANY_PORT]):
        with contextlib.suppress(SwarmException):
            await attacker.connect(PeerInfo(victim.get_id(), victim.get_addrs()))
        spoofed = ID.from_pubkey(alice.public_key) in victim.get_connected_peers()
    assert spoofed is (kind == STOCK)


async def test_honest_peers_connect_over_noise():
    async with running(HARDENED) as one, running(HARDENED) as other:
        await one.host.connect(PeerInfo(other.peer_id, other.host.get_addrs()))
        (connection,) = one.host.get_network().get_connections(other.peer_id)
        assert connection.muxed_conn.negotiated_security_protocol == "/noise"
        assert connection.muxed_conn.negotiated_muxer_protocol == "/yamux/1.0.0"


async def test_another_key_than_the_dialled_one_is_refused():
    async with running(HARDENED) as one, running(HARDENED) as other:
        stranger = ID.from_pubkey(create_new_key_pair().public_key)
        with pytest.raises(SwarmException):
            await one.host.connect(PeerInfo(stranger, other.host.get_addrs()))
