"""T16: PRUNE and GRAFT."""

import math
import time

import pytest
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.peer.id import ID
from libp2p.pubsub.gossipsub import PROTOCOL_ID_V12
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.score import ScoreParams

from tests.swarm.hardening.kit import HARDENED, STOCK, TOPIC, both, make_pubsub


def new_peers(num):
    return [ID.from_pubkey(create_new_key_pair().public_key) for _ in range(num)]


def with_peers(kind, num, **settings):
    """A node whose mesh holds `num` subscribed peers, and the peers; what it would send is noted in `sent`."""
    node, peers = make_pubsub(kind, router=settings), new_peers(num)
    node.pubsub.peer_topics[TOPIC] = set(peers)
    node.router.mesh[TOPIC] = set(peers)
    node.router.peer_protocol.update(dict.fromkeys(peers, PROTOCOL_ID_V12))
    node.sent = []

    async def record(control, peer):
        node.sent.append((peer, control))

    node.router.emit_control_message = record
    return node, peers


@both
def test_the_pruner_keeps_away_as_well_unless_stock(kind):
    node, _ = with_peers(kind, 20)
    _, prunes = node.router.mesh_heartbeat()
    assert len(prunes) == 12
    keeps_away = all(node.router._check_back_off(peer, TOPIC) for peer in prunes)
    assert keeps_away is (kind == HARDENED)


@both
async def test_prunes_for_made_up_topics_are_not_stored_unless_stock(kind):
    node, (peer,) = with_peers(kind, 1)
    for number in range(100):
        await node.router.handle_prune(rpc_pb2.ControlPrune(topicID=str(number)), peer)
    assert len(node.router.back_off) == (100 if kind == STOCK else 0)


@both
async def test_a_back_off_ends_some_day_unless_stock(kind):
    node, (peer,) = with_peers(kind, 1)
    await node.router.handle_prune(rpc_pb2.ControlPrune(topicID=TOPIC, backoff=2**63), peer)
    assert peer not in node.router.mesh[TOPIC]
    assert (node.router.back_off[TOPIC][peer] < time.time() + 4000) is (kind == HARDENED)


@both
async def test_a_refused_graft_does_not_prolong_the_back_off_unless_stock(kind):
    node, (peer,) = with_peers(kind, 1)
    node.router.mesh[TOPIC].clear()
    until_s = int(time.time()) + 5
    node.router.back_off[TOPIC] = {peer: until_s}
    await node.router.handle_graft(rpc_pb2.ControlGraft(topicID=TOPIC), peer)
    assert peer not in node.router.mesh[TOPIC]
    assert (node.router.back_off[TOPIC][peer] == until_s) is (kind == HARDENED)


@both
async def test_strangers_addresses_are_not_dialled_unless_stock(kind):
    node, (peer,) = with_peers(kind, 1, do_px=False, score_params=ScoreParams(accept_px_threshold=-math.inf))
    dialled = []

    async def dial(peers):
        dialled.extend(peers)

    node.router._do_px = dial
    prune = rpc_pb2.ControlPrune(topicID=TOPIC, peers=[rpc_pb2.PeerInfo(peerID=b"somebody")])
    await node.router.handle_prune(prune, peer)
    assert bool(dialled) is (kind == STOCK)


@both
def test_a_badly_behaved_peer_leaves_the_mesh_unless_stock(kind):
    node, peers = with_peers(kind, 8, score_params=ScoreParams(p5_behavior_penalty_weight=1.0))
    node.router.scorer.penalize_behavior(peers[0], 100)
    _, prunes = node.router.mesh_heartbeat()
    assert (peers[0] in prunes) is (kind == HARDENED)
    assert (peers[0] in node.router.mesh[TOPIC]) is (kind == STOCK)


@pytest.mark.parametrize("obstacle", ["back-off", "score", "full"])
async def test_a_graft_that_cannot_be_is_answered_by_a_prune(obstacle):
    settings = {"score_params": ScoreParams(p5_behavior_penalty_weight=1.0)}
    node, peers = with_peers(HARDENED, 33 if obstacle == "full" else 2, **settings)
    node.router.mesh[TOPIC].discard(peers[0])
    if obstacle == "back-off":
        node.router.back_off[TOPIC] = {peers[0]: int(time.time()) + 5}
    elif obstacle == "score":
        node.router.scorer.penalize_behavior(peers[0], 100)
    await node.router.handle_graft(rpc_pb2.ControlGraft(topicID=TOPIC), peers[0])
    ((answered, control),) = node.sent
    assert answered == peers[0]
    assert control.prune[0].backoff == 20


async def test_a_graft_is_refused_once_a_back_off(monkeypatch):
    node, (peer,) = with_peers(HARDENED, 1)
    node.router.mesh[TOPIC].clear()
    node.router.back_off[TOPIC] = {peer: int(time.time()) + 5}
    for _ in range(50):
        await node.router.handle_graft(rpc_pb2.ControlGraft(topicID=TOPIC), peer)
    assert len(node.sent) == 1
    node.router.back_off[TOPIC] = {peer: int(time.time()) + 9}  # another one
    await node.router.handle_graft(rpc_pb2.ControlGraft(topicID=TOPIC), peer)
    assert len(node.sent) == 2


async def test_a_graft_for_an_unknown_topic_is_not_worth_an_answer():
    node, (peer,) = with_peers(HARDENED, 1)
    await node.router.handle_graft(rpc_pb2.ControlGraft(topicID="other topic"), peer)
    assert node.sent == []


async def test_expired_back_offs_are_forgotten():
    node, (one, two) = with_peers(HARDENED, 2)
    node.router.back_off = {TOPIC: {one: time.time() - 1, two: time.time() + 9}, "old topic": {one: 0}}
    node.router.forget_expired()
    assert {topic: set(peers) for topic, peers in node.router.back_off.items()} == {TOPIC: {two}}
