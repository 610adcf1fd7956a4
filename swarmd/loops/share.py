"""Share: sign batches of own rollouts and hand them to the network. Peers are never waited for.

The outbox is bounded: when the network is away it fills, and generation waits for room rather than pile up text nobody got.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import trio

from swarmd.clients.network import Network
from swarmd.errors import LocalError
from swarmd.loops.answers import OwnRollouts
from swarmd.loops.history import History
from swarmd.metrics import Metrics
from swarmd.protocol.manifest import Manifest
from swarmd.protocol.signing import Identity
from swarmd.protocol.types import RolloutBatch
from swarmd.protocol.wire import split

log = logging.getLogger(__name__)
# A network child that died is back within seconds; later the batch is of no use to anybody.
ATTEMPTS_MAX = 3
RETRY_S = 1.0
# Generations waiting to be shared. At one, a restart of the network stalls generation at once.
OUTBOX_MAX = 8


@dataclass
class Share:
    """The sharing loop; ends when the outbox is closed. `on_message` gets each message, `network` may be missing."""

    outbox: trio.MemoryReceiveChannel[OwnRollouts]
    network: Network | None
    identity: Identity
    manifest: Manifest
    policy_name: str
    history: History
    metrics: Metrics
    on_message: Callable[[bytes], None] = lambda message: None

    async def run(self) -> None:
        async for own in self.outbox:
            await self.once(own)

    async def once(self, own: OwnRollouts) -> None:
        """Share one generation, in as many messages as it takes."""
        batches, num_too_large = split(own.rollouts, self.manifest.limits)
        if num_too_large:
            self.metrics.buffer_discarded.labels("too_large").inc(num_too_large)
            log.warning("%d own rollouts are too large to share", num_too_large)
        for batch in batches:
            await self._publish(batch, own)

    async def _publish(self, batch: RolloutBatch, own: OwnRollouts) -> None:
        message = self.identity.seal(
            batch,
            created_ms=own.created_ms,
            policy=self.policy_name,
            policy_version=own.policy_version,
            swarm=self.manifest.digest,
        )
        self.on_message(message)
        if self.network is None:
            return
        for _ in range(ATTEMPTS_MAX):
            try:
                reach = await self.network.publish(message)
            except LocalError as error:
                log.warning("sharing failed: %s", error)
                await trio.sleep(RETRY_S)
                continue
            self.metrics.published.labels("ok" if reach.subscribers else "no_peers").inc()
            self.metrics.rollouts_shared.inc(len(batch.rollouts))
            self.history.num_shared += len(batch.rollouts)
            return
        self.metrics.published.labels("failed").inc()
