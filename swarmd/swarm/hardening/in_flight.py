"""T11 and T2: stock marks a message as seen only after its (slow) validation, so it delivers copies that arrive meanwhile again. An
exception on the way (a garbage public key, a validator's bug) ends the host.
"""

from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.validators import signature_validator

from swarmd.protocol.rules import Verdict
from swarmd.swarm.hardening.counters import contained
from swarmd.swarm.hardening.verdicts import VerdictPubsub


class InFlightPubsub(VerdictPubsub):
    """Pubsub in which a message id is judged once, whatever arrives while it is being judged, and nothing escapes."""

    def __init__(self, *args: object, **settings: object) -> None:
        super().__init__(*args, **settings)
        self.in_flight: dict[bytes, bytes] = {}  # message id -> signature

    async def push_msg(self, msg_forwarder: ID, msg: rpc_pb2.Message) -> None:
        """Take in one message of a peer; never raises."""
        with contained(self.counters, "push_error"):
            await self.judge(msg_forwarder, msg)

    async def judge(self, forwarder: ID, message: rpc_pb2.Message) -> Verdict:
        """Check, validate, deliver and forward a message; IGNORE also for what needs no verdict (a copy, a blocked peer)."""
        message_id = self.get_message_id(message)
        obstacle = self._obstacle(forwarder, message, message_id)
        if obstacle is not None:
            self.counters.count(obstacle)
            return Verdict.IGNORE
        if self.strict_signing and not self._signed(message):
            self.counters.count("bad_signature")
            self._charge(forwarder, message)
            return Verdict.REJECT
        if message_id in self.in_flight:  # same author and number, other content, and both signed
            self.counters.count("equivocation")
            return Verdict.IGNORE
        # Only now: a forged copy must not be able to block the true message.
        self.in_flight[message_id] = message.signature
        try:
            verdict = await self.verdict_on(forwarder, message)
        finally:
            del self.in_flight[message_id]
        if verdict is None:
            return Verdict.IGNORE
        self.counters.count(verdict.name.lower())
        self._mark_msg_seen(message)
        if verdict is Verdict.REJECT:
            self._charge(forwarder, message)
        elif verdict is Verdict.ACCEPT:
            await self._spread(forwarder, message)
        return verdict

    def is_copy(self, message: rpc_pb2.Message) -> bool:
        """Whether a message came before, or is being judged; counts it then. Cheaper than a place in which to find that out."""
        if not self._is_known(message, self.get_message_id(message)):
            return False
        self.counters.count("duplicate")
        return True

    def _is_known(self, message: rpc_pb2.Message, message_id: bytes) -> bool:
        return bool(self._is_msg_seen(message) or self.in_flight.get(message_id) == message.signature)

    def _obstacle(self, forwarder: ID, message: rpc_pb2.Message, message_id: bytes) -> str | None:
        """The name of the reason for which a message needs no look, cheapest first."""
        if self.is_peer_blacklisted(forwarder) or self.is_peer_blacklisted(ID(message.from_id)):
            return "blacklisted"
        if self._is_known(message, message_id):
            return "duplicate"
        if forwarder != self.my_id:
            if message.from_id == self.my_id.to_bytes():
                return "echo"
            if not self.router.scorer.allow_publish(forwarder, list(message.topicIDs)):
                return "low_score"
        return None

    def _signed(self, message: rpc_pb2.Message) -> bool:
        with contained(self.counters, "signature_error"):  # stock raises on a garbage key
            return bool(signature_validator(message))
        return False

    def _charge(self, forwarder: ID, message: rpc_pb2.Message) -> None:
        if forwarder != self.my_id:
            for topic in message.topicIDs:
                self.router.scorer.on_invalid_message(forwarder, topic)

    async def _spread(self, forwarder: ID, message: rpc_pb2.Message) -> None:
        if forwarder != self.my_id:
            for topic in message.topicIDs:
                self.router.scorer.on_first_delivery(forwarder, topic)
        self.notify_subscriptions(message)
        await self.router.publish(forwarder, message)
