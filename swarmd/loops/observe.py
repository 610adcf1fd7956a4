"""Observe: what the buffer, the network and the children look like, every other second.

Looks only; nothing here decides anything.
"""

import heapq
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from swarmd.clients.network import Network, NetworkStats
from swarmd.errors import LocalError
from swarmd.experience.buffer import BufferCounts
from swarmd.experience.shares import effective_number
from swarmd.loops.history import History
from swarmd.loops.ports import RunBlocking
from swarmd.loops.shown import BufferShown, NetworkShown, Shown
from swarmd.metrics import CounterMirror, Metrics
from swarmd.metrics.labels import BYTES
from swarmd.protocol.rules import VERDICT_OF, Verdict
from swarmd.protocol.signing import peer_id_of

log = logging.getLogger(__name__)
LOOK_INTERVAL_S = 2.0
# Authors named in the status, those who hold most. A buffer full of single rollouts of 20,000 identities would else cost 180 ms of
# the daemon's loop at every look, and a status of megabytes.
AUTHORS_SHOWN = 1000


@dataclass
class Observe:
    """Copies counts of the buffer, the network child and the workers into metrics and status."""

    network: Network | None
    counts: Callable[[], BufferCounts]
    run_blocking: RunBlocking
    workers_up: Callable[[], dict[str, bool]]
    history: History
    shown: Shown
    metrics: Metrics
    _mirror: CounterMirror = field(default_factory=CounterMirror)

    async def run(self) -> None:
        while True:
            await self.once()
            await trio.sleep(LOOK_INTERVAL_S)

    async def once(self) -> None:
        metrics = self.metrics
        try:
            self._buffer(await self.run_blocking(self.counts))
            self.shown.buffer_error = None
        except LocalError as error:
            log.warning("the buffer cannot be looked at: %s", error)
            self.shown.buffer_error = error
        metrics.tasks.labels("daemon").set(trio.lowlevel.current_statistics().tasks_living)
        for worker, up in self.workers_up().items():
            metrics.worker_up.labels(worker).set(up)
        if self.network is not None:
            with trio.move_on_after(LOOK_INTERVAL_S * 5):
                await self._network(self.network)

    def _buffer(self, counts: BufferCounts) -> None:
        metrics = self.metrics
        metrics.buffer_rollouts.labels("informative").set(counts.num_informative)
        metrics.buffer_rollouts.labels("uninformative").set(counts.num_rollouts - counts.num_informative)
        metrics.buffer_bytes.set(counts.size_bytes)
        metrics.buffer_sources.set(len(counts.by_author))
        metrics.trust_effective.labels("buffer").set(effective_number(counts.by_author.values()))
        used = sum((Counter(r.drawn.used_by_author) for r in self.history.recent), Counter[str]())
        metrics.trust_effective.labels("rounds").set(effective_number(used.values()))
        most = heapq.nlargest(AUTHORS_SHOWN, counts.by_author.items(), key=lambda held: held[1])
        self.shown.buffer = BufferShown(
            num_rollouts=counts.num_rollouts,
            num_informative=counts.num_informative,
            size_bytes=counts.size_bytes,
            by_author={peer_id_of(author): num for author, num in most},
        )

    async def _network(self, network: Network) -> None:
        try:
            stats, peers = await network.stats(), await network.peers()
        except LocalError as error:
            log.debug("the network process does not answer: %s", error)
            return
        directions = [peer.direction for peer in peers]
        for direction in ("inbound", "outbound"):
            self.metrics.peers.labels(direction).set(directions.count(direction))
        self.shown.network = NetworkShown(peers, stats)
        self._count(stats)

    def _count(self, stats: NetworkStats) -> None:
        """Move the child's running totals into our counters."""
        metrics, verdicts = self.metrics, stats.verdicts
        by_verdict = {verdict.value: self.shown.network.num(verdict) for verdict in Verdict}
        refused = {
            "connection": stats.banned_connections,
            "message": stats.banned_messages + stats.blacklisted,
        }
        traffic = stats.traffic
        grown = self._mirror.growth(
            {
                "received": stats.received,
                "duplicates": traffic.num_duplicates,
                "in": traffic.bytes_in,
                "out": traffic.bytes_out,
                **{f"dial {result}": num for result, num in traffic.dials.items()},
                **{f"refused {why}": num for why, num in traffic.refused.items()},
                **by_verdict,
                **{f"rule {r}": n for r, n in verdicts.items()},
                **refused,
            }
        )
        for what in refused:
            metrics.trust_refused.labels(what).inc(grown[what])
        metrics.mesh_peers.set(stats.reach.mesh_peers)
        metrics.received.inc(grown["received"])
        metrics.gossip_duplicates.inc(grown["duplicates"])
        for direction in BYTES:
            metrics.p2p_bytes.labels(direction).inc(grown[direction])
        for result in traffic.dials:
            metrics.dials.labels(result).inc(grown[f"dial {result}"])
        for why in traffic.refused:
            metrics.refused_inbound.labels(why).inc(grown[f"refused {why}"])
        metrics.dialled_back.labels("reached").set(stats.outside.num_reached)
        metrics.dialled_back.labels("failed").set(stats.outside.num_failed)
        for verdict in by_verdict:
            metrics.validation.labels(verdict).inc(grown[verdict])
        for rule in verdicts:
            if VERDICT_OF[rule] is not Verdict.ACCEPT:
                metrics.rejects.labels(rule).inc(grown[f"rule {rule}"])
        metrics.heartbeat_lag.set(stats.heartbeat_lag_s)
        metrics.tasks.labels("network").set(stats.num_tasks)
