"""The specification's message id is `from` then `seqno`, and go-libp2p and py-libp2p have it. The defaults of two others differ:
that of js-libp2p is the public key then `seqno`; that of rust-libp2p is the text of `from`, then of `seqno` in decimal.

Ids stand in IHAVE, IWANT and IDONTWANT alone. A js node that is offered ids of another form fetches messages that it has, misses
the ids among what it gets, takes that for broken promises, and turns the peer out of its mesh for good. All three forms say the
same, so each peer is spoken to in its own.
"""

import enum

from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2

from swarmd.recent import Recent
from swarmd.swarm.hardening.replay import OFFER_IDS_MAX, OfferInsteadOfReplay
from swarmd.swarm.hardening.rpc_bounds import FROM_BYTES, KEY_BYTES, SEQNO_BYTES

# Peers whose form is remembered; more than are ever connected.
PEERS_MAX = 1000
# Beats that identify has for its answer.
OFFER_BEATS_MAX = 3
# A peer id of Ed25519 is this, then its public key as the protobuf that begins with the second.
_HASHED, _KEY = b"\x00\x24", b"\x08\x01\x12\x20"
_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_DIGITS = {character: number for number, character in enumerate(_ALPHABET)}
# Characters of such a peer id, and how all of them begin.
_TEXT_CHARS, _TEXT = 52, b"12D3Koo"


class Form(enum.Enum):
    """How a peer writes message ids."""

    SPECIFIED = "specified"
    JS = "js"
    RUST = "rust"


_AGENTS = {"js-libp2p": Form.JS, "rust-libp2p": Form.RUST}


def understood(message_id: bytes) -> tuple[bytes, Form | None]:
    """The id as the specification has it, and the form it came in; as it came, and None, where it is in no known form."""
    if len(message_id) == FROM_BYTES + SEQNO_BYTES and message_id.startswith(_HASHED + _KEY):
        return message_id, Form.SPECIFIED
    if len(message_id) == KEY_BYTES + SEQNO_BYTES and message_id.startswith(_KEY):
        return _HASHED + message_id, Form.JS
    if len(message_id) > _TEXT_CHARS and message_id.startswith(_TEXT) and message_id[_TEXT_CHARS:].isdigit():
        try:
            author = _bytes_of(message_id[:_TEXT_CHARS].decode("ascii"))
            number = int(message_id[_TEXT_CHARS:]).to_bytes(SEQNO_BYTES, "big")
        except (KeyError, OverflowError, UnicodeDecodeError):
            return message_id, None
        if author.startswith(_HASHED + _KEY):
            return author + number, Form.RUST
    return message_id, None


def written(message_id: bytes, form: Form | None) -> bytes:
    """An id of the specification's in another form; an id that is none of them stays as it is."""
    if form in (None, Form.SPECIFIED) or understood(message_id)[1] is not Form.SPECIFIED:
        return message_id
    if form is Form.JS:
        return message_id[len(_HASHED) :]
    number = int.from_bytes(message_id[FROM_BYTES:], "big")
    return f"{ID(message_id[:FROM_BYTES])}{number}".encode()


def _bytes_of(text: str) -> bytes:
    """A peer id from its base58 text. Raises KeyError or OverflowError."""
    number = 0
    for character in text:
        number = number * 58 + _DIGITS[character]
    return number.to_bytes(FROM_BYTES, "big")


def form_of_agent(agent: str) -> Form:
    """The form of a library's default, by what it says of itself in identify; anybody else's is the specification's."""
    return next((form for name, form in _AGENTS.items() if agent.startswith(name)), Form.SPECIFIED)


def _lists(
    control: rpc_pb2.ControlMessage,
) -> list[rpc_pb2.ControlIHave | rpc_pb2.ControlIWant | rpc_pb2.ControlIDontWant]:
    """All lists of ids in a control message."""
    return [*control.ihave, *control.iwant, *control.idontwant]


class ForeignIds(OfferInsteadOfReplay):
    """GossipSub that understands message ids in each of the forms, and writes them in the one that a peer used last.

    A peer that has used none gets that of its library, by what `identify` noted in the host's `forms`. Before identify has its
    answer nothing is offered to it, for some beats at most: an offer in the wrong form is what turns a js node away.
    """

    def __init__(self, *args: object, **settings: object) -> None:
        super().__init__(*args, **settings)
        self._forms: Recent[ID, Form] = Recent(PEERS_MAX)
        self._beats_left: Recent[ID, int] = Recent(PEERS_MAX)  # of subscribers that were offered nothing yet

    def form_of(self, peer: ID) -> Form | None:
        """How a peer writes ids; None where nothing is known of it."""
        noted: dict[ID, Form] = getattr(self.pubsub.host, "forms", {})
        return self._forms.get(peer) or noted.get(peer)

    async def handle_rpc(self, rpc: rpc_pb2.RPC, sender_peer_id: ID) -> None:
        """Write the ids of a peer's control messages as the specification has them, then do what they say."""
        for listed in _lists(rpc.control):
            found = [understood(message_id) for message_id in listed.messageIDs]
            if any(form not in (None, Form.SPECIFIED) for _, form in found):
                listed.messageIDs[:] = [message_id for message_id, _ in found]
            if form := next((form for _, form in found if form), None):
                self._forms[sender_peer_id] = form
        await super().handle_rpc(rpc, sender_peer_id)

    async def emit_control_message(self, control_msg: rpc_pb2.ControlMessage, to_peer: ID) -> None:
        """Send a control message with its ids in the peer's own form."""
        form = self.form_of(to_peer)
        if form not in (None, Form.SPECIFIED):
            theirs = rpc_pb2.ControlMessage()
            theirs.CopyFrom(control_msg)
            for listed in _lists(theirs):
                listed.messageIDs[:] = [written(message_id, form) for message_id in listed.messageIDs]
            control_msg = theirs
        await super().emit_control_message(control_msg, to_peer)

    async def send_recent_messages(self, peer_id: ID, topic: str) -> None:
        """Offer a newcomer the recent messages, at once or in one of the next beats."""
        if self.form_of(peer_id) is None:
            self._beats_left[peer_id] = OFFER_BEATS_MAX
        else:
            await super().send_recent_messages(peer_id, topic)

    def gossip_heartbeat(self) -> dict[ID, dict[str, list[bytes]]]:
        """Which peer is offered which ids in this beat: nothing to those of whom nothing is known yet."""
        offers = super().gossip_heartbeat()
        for peer, left in list(self._beats_left.items()):
            offers.pop(peer, None)
            if self.form_of(peer) is None and left > 1:
                self._beats_left[peer] = left - 1
                continue
            del self._beats_left[peer]
            for topic in self.mesh:
                if peer in self.pubsub.peer_topics.get(topic, ()) and (ids := self.mcache.window(topic)):
                    offers[peer] = {topic: ids[-OFFER_IDS_MAX:]}
        return offers
