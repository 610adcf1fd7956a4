"""Three verdicts for pubsub: stock validators know only true and false, and charge the peer when *we* were too slow.

ACCEPT delivers and forwards; REJECT drops and charges the forwarder; IGNORE drops and charges nobody.
An answer that did not come in time is no answer: the message is dropped, nobody is charged, and it may come again.
"""

from collections.abc import Awaitable, Callable

import trio
from libp2p.exceptions import ValidationError
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub

from swarmd.protocol.rules import Verdict
from swarmd.swarm.hardening.counters import Counters, contained

Validator = Callable[
    [ID, rpc_pb2.Message], Awaitable[Verdict | None]
]  # (forwarder's peer id, message) -> verdict


class VerdictPubsub(Pubsub):  # type: ignore[misc]
    """Pubsub that asks verdict validators; topics without one fall back to the stock validators."""

    counters: Counters

    def __init__(self, *args: object, **settings: object) -> None:
        super().__init__(*args, **settings)
        self._verdict_validators: dict[str, Validator] = {}

    def set_validator(self, topic: str, validator: Validator) -> None:
        """Judge the messages of a topic, own ones included (`forwarder == pubsub.my_id`); one validator per topic."""
        self._verdict_validators[topic] = validator

    async def verdict_on(self, forwarder: ID, message: rpc_pb2.Message) -> Verdict | None:
        """The verdict, or None when there was none: too slow, or the validator itself failed (our bug, not the peer's)."""
        verdict: Verdict | None = None
        with contained(self.counters, "validator_error"):
            with trio.move_on_after(self.validation_timeout) as scope:
                verdict = await self._ask(forwarder, message)
            if scope.cancelled_caught:
                self.counters.count("validator_timeout")
        return verdict

    async def _ask(self, forwarder: ID, message: rpc_pb2.Message) -> Verdict | None:
        for topic in message.topicIDs:
            if topic in self._verdict_validators:
                return await self._verdict_validators[topic](forwarder, message)
        try:
            await self.validate_msg(forwarder, message)
        except ValidationError:
            return Verdict.REJECT
        return Verdict.ACCEPT
