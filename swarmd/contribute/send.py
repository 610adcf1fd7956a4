"""Send: seal, judge by the very rules of a receiver, and publish, no faster than the slowest receiver scores.

The ledger marks answers as leaving before they leave, and as sent after a peer was given them. After an interruption the same
command goes on where it was. Receivers that have a rollout already drop the second copy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import trio

from swarmd.clients.network import Reach
from swarmd.contribute.ledger import Ledger
from swarmd.errors import ChildDied, LocalError, Temporary
from swarmd.loops.ports import NowMs, Say
from swarmd.protocol.manifest import Manifest
from swarmd.protocol.rules import validate
from swarmd.protocol.seen import Seen
from swarmd.protocol.signing import Identity
from swarmd.protocol.types import Rollout, RolloutBatch
from swarmd.protocol.wire import split

LOOK_S = 0.25
# Seconds to wait for neighbours that forward (a mesh). They come within some heartbeats of a second after the first peer. Without a
# mesh a message still travels by gossip's announcements, more slowly.
MESH_S_MAX = 10.0
# Seconds between two messages. A node looks at 50 messages a second of one peer (`NetworkLimits.messages_per_s_max`) and lets 256
# wait for its scorer, which needs up to 60 ms for the 64 rollouts of each. Two a second are an eighth of what the scorer takes in,
# so that slow nodes need not drop other people's messages for ours.
PACE_S = 0.5
ATTEMPTS_MAX = 3
RETRY_S = 1.0


class Outlet(Protocol):
    """A way into the swarm."""

    async def reach(self) -> Reach:
        """Whom a message would reach now. Raises Temporary or ChildDied while the network is being replaced."""

    async def publish(self, data: bytes) -> Reach:
        """Give a sealed message to the swarm; says whom it reached. Raises as `reach`, and LocalError when it is refused."""


class Delivery(NamedTuple):
    """One message that went out."""

    num_rollouts: int
    reach: Reach


@dataclass
class Sender:
    """Sends rollouts of one author. `patience_s` is how long a peer is waited for, `policy` what answered them."""

    outlet: Outlet
    ledger: Ledger
    identity: Identity
    manifest: Manifest
    policy: str
    patience_s: float
    now_ms: NowMs
    say: Say

    async def send(self, rollouts: Sequence[Rollout], digests: Mapping[int, bytes]) -> list[Delivery]:
        """Publish all rollouts, in as many messages as they need.

        Args:
            rollouts: each fits into a message.
            digests: by counter, of the answers.

        Raises:
            Temporary: nobody was there for `patience_s`. What was sent before is remembered, nothing else is.
            LocalError: a message breaks a rule, or the network refused it.
        """
        batches = split(list(rollouts), self.manifest.limits).batches
        deliveries: list[Delivery] = []
        for number, batch in enumerate(batches, 1):
            if number > 1:
                await trio.sleep(PACE_S)
            try:
                reach = await self._deliver(batch, digests)
            except LocalError as error:
                if not deliveries:
                    raise
                num_sent = sum(delivery.num_rollouts for delivery in deliveries)
                what = f"{num_sent} of {len(rollouts)} rollouts were sent, then: {error.what}"
                again = "run the same command again: what was sent is skipped"
                raise type(error)(what, error.why, error.fix or again) from error
            deliveries.append(Delivery(len(batch.rollouts), reach))
            if len(batches) > 1:
                self.say(
                    f"message {number} of {len(batches)}: {len(batch.rollouts)} rollouts, {reach.subscribers} peers"
                )
        return deliveries

    async def _deliver(self, batch: RolloutBatch, digests: Mapping[int, bytes]) -> Reach:
        answers = {rollout.counter: digests[rollout.counter] for rollout in batch.rollouts}
        with trio.move_on_after(self.patience_s):
            while True:
                await self._find_peers()
                # Sealed only now: receivers refuse a message that is older than some minutes, and people take their time.
                message = seal(batch, self.identity, self.manifest, self.policy, self.now_ms())
                opened = self.ledger.begin(answers)
                with trio.CancelScope(shield=True):  # patience ends between messages, never within one
                    reach = await self._publish(message)
                if reach.subscribers:
                    self.ledger.sent(answers)
                    return reach
                self.ledger.reopen(opened)
                await trio.sleep(LOOK_S)
        raise Temporary(
            f"no peer of the swarm {self.manifest.name} within {self.patience_s:.0f} s",
            "none answers at the bootstrap addresses, or none is of this swarm",
            "check --bootstrap and --swarm, then run the same command again",
        )

    async def _find_peers(self) -> None:
        """Returns once somebody is there, preferably neighbours that forward."""
        first_s: float | None = None
        while True:
            try:
                reach = await self.outlet.reach()
            except (Temporary, ChildDied):
                reach = Reach(0, 0)
            if reach.subscribers:
                first_s = trio.current_time() if first_s is None else first_s
                if reach.mesh_peers or trio.current_time() - first_s >= min(MESH_S_MAX, self.patience_s / 2):
                    return
            await trio.sleep(LOOK_S)

    async def _publish(self, message: bytes) -> Reach:
        for _ in range(ATTEMPTS_MAX - 1):
            try:
                return await self.outlet.publish(message)
            except (Temporary, ChildDied):
                await trio.sleep(RETRY_S)
        return await self.outlet.publish(message)


def seal(batch: RolloutBatch, identity: Identity, manifest: Manifest, policy: str, now_ms: int) -> bytes:
    """The signed message, judged as a receiver will judge it. Raises LocalError with the rule that it breaks."""
    message = identity.seal(batch, created_ms=now_ms, policy=policy, policy_version=0, swarm=manifest.digest)
    outcome = validate(message, now_ms=now_ms, seen=Seen(), manifest=manifest)
    if outcome.batch is None:
        raise LocalError(f"receivers would refuse the message by rule {outcome.rule}: {outcome.detail}")
    return message
