"""The hardened Pubsub: the fixes of the files beside this one in one class, and a publish that tells what became of the message."""

from libp2p.abc import IHost, IPubsubRouter
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.validators import PUBSUB_SIGNING_PREFIX

from swarmd.protocol.rules import Verdict
from swarmd.swarm.hardening.counters import Counters
from swarmd.swarm.hardening.peer_streams import PeerStreamsPubsub
from swarmd.swarm.hardening.rpc_reader import ReaderPubsub
from swarmd.swarm.hardening.seen_cache import SeenCache
from swarmd.swarm.hardening.seqno import first_seqno
from swarmd.swarm.hardening.subscription_channel import SubscriptionPubsub

PUBSUB_COUNTERS = (
    "accept",
    "reject",
    "ignore",
    "duplicate",
    "echo",
    "equivocation",
    "blacklisted",
    "low_score",
    "bad_signature",
    "bad_sender_record",
    "misframed_rpc",
    "rpc_out_of_bounds",
    "graylisted",
    "control_flood",
    "too_many_streams",
    "peer_closed",
    "peer_stalled",
    "subscriber_lagged",
    "validator_timeout",
    "validator_error",
    "signature_error",
    "push_error",
    "control_error",
    "send_error",
    "reset_error",
    "replay_error",
)
# The RPC around a message costs at most this: signature, key, author, number, topic, and the sender's record in front.
RPC_OVERHEAD_BYTES = 4096


class HardenedPubsub(ReaderPubsub, PeerStreamsPubsub, SubscriptionPubsub):
    """Pubsub for a public network; takes the arguments of py-libp2p's `Pubsub`. The message id stays the default one (T10)."""

    def __init__(self, host: IHost, router: IPubsubRouter, **settings: object) -> None:
        self.counters = Counters(PUBSUB_COUNTERS)
        super().__init__(host, router, **settings)
        self.counter = first_seqno()
        stock = vars(self)["seen_messages"]
        stock.stop()
        self.seen_messages = SeenCache(stock.ttl)

    async def publish(self, topic_id: str | list[str], data: bytes) -> Verdict:
        """Sign, judge, deliver and send a message; returns our own validator's verdict.

        Raises:
            ValueError: no peer would take a message of this size (stock drops it without a word, T22).
        """
        topics = [topic_id] if isinstance(topic_id, str) else list(topic_id)
        if len(data) + RPC_OVERHEAD_BYTES > self.max_inbound_rpc_size:
            limit = self.max_inbound_rpc_size - RPC_OVERHEAD_BYTES
            raise ValueError(f"message of {len(data)} bytes, at most {limit} fit")
        message = rpc_pb2.Message(
            data=data, topicIDs=topics, from_id=self.my_id.to_bytes(), seqno=self._next_seqno()
        )
        if self.strict_signing:
            payload = PUBSUB_SIGNING_PREFIX.encode() + message.SerializeToString()
            message.signature = self.sign_key.sign(payload)
            message.key = self.host.get_public_key().serialize()
        return await self.judge(self.my_id, message)
