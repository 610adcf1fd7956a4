"""Bounds of an RPC, field by field: stock checks the size of the whole alone, so 256 KiB were 34,000 topics or 60,000 GRAFTs.

Pure, and the first to look at a decoded RPC. Decoding 256 KiB takes at most 7 ms, whatever they hold, since no Python object is
made of a field before it is asked for. Counting the fields beforehand, in Python, would cost more than it saves.
`proto/NETWORK.md` lists the bounds with their reasons. Fields that are not checked here are never read.
"""

from collections.abc import Iterable, Sequence, Set

from google.protobuf.unknown_fields import UnknownFieldSet
from libp2p.pubsub.pb import rpc_pb2

# Twice what is asked of one peer in a beat (`gossip_repair`), which may be answered in one RPC.
MESSAGES_MAX = 128
# A hello lists all topics of a host, which may be in several swarms.
SUBSCRIPTIONS_MAX = 256
# One of each says all there is to say of one topic; retries and other topics of a host may ride along.
GRAFTS_MAX = PRUNES_MAX = 4
LISTS_MAX = 16
# The IHAVE limit of go-, js- and rust-libp2p, for each of the three kinds of lists.
IDS_MAX = 5000
ID_BYTES_MAX = 128
# Addresses of peers in a PRUNE; others send 16. Never read.
EXCHANGED_PEERS_MAX = 64
# All of go-libp2p's addresses fit its own limit for a signed record, which is this.
RECORD_BYTES_MAX = 8192

# A strictly signed message of an Ed25519 identity, and no other identity is in a swarm.
FROM_BYTES, SEQNO_BYTES, SIGNATURE_BYTES, KEY_BYTES = 38, 8, 64, 36
# Tags and lengths of the six fields: one byte of tag, and of length 1, or up to 3 for data and 2 for the topic.
FRAMING_BYTES_MAX = 6 + 3 + 2 + 4


class OutOfBounds(Exception):
    """The peer sent an RPC that no honest one sends; the text names the field."""


def check(rpc: rpc_pb2.RPC, topics: Set[str] | None) -> None:
    """Look at every field of an RPC that something after this will read.

    Args:
        topics: what messages may be about; None for whatever there is.

    Raises:
        OutOfBounds: with the name of the first field that is too long, too many, or none of ours.
    """
    _require(len(rpc.publish) <= MESSAGES_MAX, "publish")
    _require(len(rpc.subscriptions) <= SUBSCRIPTIONS_MAX, "subscriptions")
    _require(len(rpc.senderRecord) <= RECORD_BYTES_MAX, "senderRecord")
    for message in rpc.publish:
        _check_message(message, topics)
    if rpc.HasField("control"):
        _check_control(rpc.control)


def _check_message(message: rpc_pb2.Message, topics: Set[str] | None) -> None:
    _require(len(message.topicIDs) == 1, "publish.topicIDs")
    topic = message.topicIDs[0]
    _require(topics is None or topic in topics, "publish.topicIDs")
    _require(len(message.from_id) == FROM_BYTES, "publish.from")
    _require(len(message.seqno) == SEQNO_BYTES, "publish.seqno")
    _require(len(message.signature) == SIGNATURE_BYTES, "publish.signature")
    _require(len(message.key) in (0, KEY_BYTES), "publish.key")
    # A message is passed on as it came. Other fields in it would travel through the swarm, under no limit of the contract.
    beside = message.ByteSize() - len(message.data) - len(topic.encode())
    held = FROM_BYTES + SEQNO_BYTES + SIGNATURE_BYTES + len(message.key) + FRAMING_BYTES_MAX
    _require(beside <= held and not len(UnknownFieldSet(message)), "publish.unknown")


def _check_control(control: rpc_pb2.ControlMessage) -> None:
    _require(len(control.graft) <= GRAFTS_MAX, "control.graft")
    _require(len(control.prune) <= PRUNES_MAX, "control.prune")
    _require(sum(len(prune.peers) for prune in control.prune) <= EXCHANGED_PEERS_MAX, "control.prune.peers")
    for name in ("ihave", "iwant", "idontwant"):
        lists = getattr(control, name)
        _require(len(lists) <= LISTS_MAX, f"control.{name}")
        _check_ids([one.messageIDs for one in lists], f"control.{name}.messageIDs")


def _check_ids(lists: Iterable[Sequence[bytes]], field: str) -> None:
    num = 0
    for ids in lists:
        num += len(ids)
        _require(num <= IDS_MAX and all(0 < len(one) <= ID_BYTES_MAX for one in ids), field)


def _require(holds: bool, field: str) -> None:
    if not holds:
        raise OutOfBounds(field)
