"""Message ids as three libraries write them."""

import pytest
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2

from swarmd.swarm.hardening.message_ids import OFFER_BEATS_MAX, Form, form_of_agent, understood, written
from tests.swarm.hardening.kit import HARDENED, TOPIC, becomes, connect_in_topic, make_pubsub, running

KEY = create_new_key_pair(bytes(range(32))).public_key
AUTHOR = ID.from_pubkey(KEY)
SEQNO = (1_700_000_000_000_000_000).to_bytes(8, "big")
SPECIFIED = AUTHOR.to_bytes() + SEQNO
# Written out as the libraries have it: js-libp2p's msgIdFn of strictly signed messages, rust-libp2p's default message_id_fn.
JS = KEY.serialize() + SEQNO
RUST = AUTHOR.to_base58().encode() + str(int.from_bytes(SEQNO, "big")).encode()
FORMS = [(SPECIFIED, Form.SPECIFIED), (JS, Form.JS), (RUST, Form.RUST)]


@pytest.mark.parametrize(("message_id", "form"), FORMS)
def test_each_form_is_understood_and_written(message_id, form):
    assert understood(message_id) == (SPECIFIED, form)
    assert written(SPECIFIED, form) == message_id


@pytest.mark.parametrize("number", [0, 1, 2**64 - 1])
def test_every_number_survives(number):
    message_id = AUTHOR.to_bytes() + number.to_bytes(8, "big")
    for form in Form:
        assert understood(written(message_id, form)) == (message_id, form)


@pytest.mark.parametrize(
    "message_id",
    [
        b"x",
        SPECIFIED[:-1],
        JS + b"x",
        RUST[:52],
        RUST + b"x",
        RUST[:52] + b"9" * 21,
        RUST[:51] + b"0" + RUST[52:],
        b"12D3Koo" + b"z" * 45 + b"7",
        b"\xff" * 60,
    ],
)
def test_what_is_none_of_them_stays_as_it_is(message_id):
    assert understood(message_id) == (message_id, None)
    assert all(written(message_id, form) == message_id for form in Form)


@pytest.mark.parametrize(
    ("agent", "form"),
    [
        ("js-libp2p/3.3.11 UserAgent=v22", Form.JS),
        ("rust-libp2p/0.46.0", Form.RUST),
        ("go-libp2p/0.40", Form.SPECIFIED),
        ("", Form.SPECIFIED),
        ("notjs-libp2p", Form.SPECIFIED),
    ],
)
def test_a_library_is_known_by_its_agent(agent, form):
    assert form_of_agent(agent) is form


def sent(router):
    """The control messages that a router would send, by peer."""
    found = {}
    router.send_rpc = lambda peer, rpc, priority=False: found.setdefault(peer, []).append(rpc.control)
    return found


@pytest.mark.parametrize(("message_id", "form"), FORMS)
async def test_a_peer_is_answered_in_the_form_that_it_used(message_id, form):
    router, peer = make_pubsub(HARDENED).router, ID(b"peer")
    router.mesh = {TOPIC: set()}
    rpc = rpc_pb2.RPC()
    rpc.control.ihave.add(topicID=TOPIC, messageIDs=[message_id])
    router.pubsub.peer_queues = {peer: None}
    told = sent(router)
    await router.handle_rpc(rpc, peer)
    ((control,),) = told.values()
    assert list(control.iwant[0].messageIDs) == [
        message_id
    ]  # what it offered is asked for by the name that it gave
    note = rpc_pb2.ControlMessage(idontwant=[rpc_pb2.ControlIDontWant(messageIDs=[SPECIFIED])])
    await router.emit_control_message(note, peer)
    assert list(told[peer][-1].idontwant[0].messageIDs) == [message_id]
    assert list(note.idontwant[0].messageIDs) == [SPECIFIED]  # it goes to others too


async def test_a_question_in_another_form_is_answered():
    async with running(HARDENED) as one, running(HARDENED) as other:
        await connect_in_topic(one, other)
        await one.pubsub.publish(TOPIC, b"data")
        (message_id,) = one.router.mcache.msgs
        served = []
        one.router.send_rpc = lambda peer, rpc, priority=False: served.extend(rpc.publish)
        rpc = rpc_pb2.RPC()
        rpc.control.iwant.add(messageIDs=[written(message_id, Form.JS)])
        await one.router.handle_rpc(rpc, other.peer_id)
        assert [message.data for message in served] == [b"data"]


async def test_nothing_is_offered_before_a_peers_library_is_known():
    router, peer = make_pubsub(HARDENED).router, ID(b"peer")
    router.mesh, router.pubsub.peer_topics = {TOPIC: set()}, {TOPIC: {peer}}
    router.pubsub.peer_queues = {peer: None}
    router.peer_protocol = {peer: router.protocols[0]}
    router.mcache.window = lambda topic: [SPECIFIED]
    told = sent(router)
    await router.send_recent_messages(peer, TOPIC)
    assert not told
    assert not router.gossip_heartbeat()
    router.pubsub.host.forms[peer] = Form.JS
    assert router.gossip_heartbeat() == {peer: {TOPIC: [SPECIFIED]}}
    await router.send_recent_messages(peer, TOPIC)
    assert list(told[peer][0].ihave[0].messageIDs) == [JS]


async def test_a_peer_that_never_says_is_offered_them_some_beats_later():
    router, peer = make_pubsub(HARDENED).router, ID(b"peer")
    router.mesh, router.pubsub.peer_topics = {TOPIC: set()}, {TOPIC: {peer}}
    router.peer_protocol = {peer: router.protocols[0]}
    router.mcache.window = lambda topic: [SPECIFIED]
    await router.send_recent_messages(peer, TOPIC)
    offers = [router.gossip_heartbeat() for _ in range(OFFER_BEATS_MAX)]
    assert [bool(offer) for offer in offers] == [False] * (OFFER_BEATS_MAX - 1) + [True]


async def test_identify_says_which_library_a_peer_has():
    async with running(HARDENED) as one, running(HARDENED) as other:
        await connect_in_topic(one, other)
        assert await becomes(lambda: one.router.form_of(other.peer_id) is Form.SPECIFIED)
