"""Every Prometheus metric of the node: its own here, the others in `swarm` and `training`, the values of labels in `labels`.

The values of two labels come from elsewhere: names of datasets from the manifest, names of rules from the code. Metrics live in a
registry of their own, so that several nodes (or tests) can exist in one process.
"""

import platform
import time
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.process_collector import ProcessCollector

from swarmd import __version__
from swarmd.metrics.labels import (
    CONTROL_ENDS,
    CONTROL_SOCKETS,
    HEALTH_CODES,
    PHASES,
    RESTART_REASONS,
    STATE_FILES,
    WORKERS,
)
from swarmd.metrics.swarm import SwarmMetrics
from swarmd.metrics.training import TrainingMetrics
from swarmd.optimizers import PLAN_NAMES

# A 1 s timer's delay: a healthy loop is below 10 ms, a heartbeat (1 s) is in danger above 500 ms.
_LAG_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)


class Metrics(SwarmMetrics, TrainingMetrics):
    """The registry and every metric in it.

    Args:
        datasets: dataset names of the manifest, the values of the `task` label.
        rules: the gossip rules, the values of the `reason` label of rejections.
        monotonic_s: the clock by which phases are measured.
    """

    def __init__(
        self,
        datasets: Iterable[str] = (),
        rules: Iterable[str] = (),
        *,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic_s = monotonic_s
        self._phase_now, self._phase_since_s = "starting", monotonic_s()
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._make_node()
        self._make_gossip(rules)
        self._make_buffer()
        self._make_authors()
        self._make_generation()
        self._make_scoring()
        self._make_rounds(datasets)
        self._make_externals()
        self._make_canary()
        self.build_info.labels(version=__version__, python=platform.python_version()).set(1)

    def set_phase(self, phase: str) -> None:
        """Exactly one phase is 1; the time until now belongs to the one before."""
        self._count_phase()
        self._phase_now = phase
        for name in PHASES:
            self.phase.labels(name).set(1 if name == phase else 0)

    def set_memory_plan(self, name: str) -> None:
        """Exactly one plan is 1."""
        for plan in PLAN_NAMES:
            self.memory_plan.labels(plan).set(1 if plan == name else 0)

    def count_connection(self, name: str, end: str) -> None:
        self.control_connections.labels(name, end).inc()

    def render(self) -> bytes:
        """The exposition text, with the phase under way counted up to now."""
        self._count_phase()
        return bytes(generate_latest(self.registry))

    def _count_phase(self) -> None:
        now_s = self._monotonic_s()
        self.phase_seconds.labels(self._phase_now).inc(now_s - self._phase_since_s)
        self._phase_since_s = now_s

    def _make_node(self) -> None:
        """The node itself: its processes, sockets, memory plan and phases."""
        self.build_info = self._gauge("build_info", "Constant 1; what is running.", "version", "python")
        self.node_info = self._gauge(
            "node_info", "Constant 1; this node's own id, model and swarm.", "peer_id", "model", "swarm"
        )
        self.ready = self._gauge("ready", "1 while all workers are up.")
        self.healthy = self._gauge(
            "healthy", "1 while the node does its work: what `swarmd healthcheck` asks."
        )
        self.health = self._gauge("health", "1 for each thing that is wrong now.", code=HEALTH_CODES)
        self.worker_up = self._gauge(
            "worker_up", "1 while the child process is there to be called.", worker=WORKERS
        )
        self.worker_restarts = self._counter(
            "worker_restarts",
            "Child processes replaced.",
            worker=WORKERS,
            reason=RESTART_REASONS,
        )
        self.loop_lag = self._histogram(
            "loop_lag_seconds", "Delay of a 1 s timer: the event loop's health.", _LAG_BUCKETS_S
        )
        self.tasks = self._gauge("tasks", "Trio tasks alive, by process.", process=("daemon", "network"))
        self.control_connections = self._counter(
            "control_connections",
            "Connections to the local sockets, by how they ended.",
            socket=CONTROL_SOCKETS,
            end=CONTROL_ENDS,
        )
        self.memory_plan = self._gauge("memory_plan", "State set: the memory plan in force.", plan=PLAN_NAMES)
        self.memory_plan_changes = self._counter(
            "memory_plan_changes", "Changes of the memory plan while running."
        )
        self.phase = self._gauge("phase", "State set: what the update loop does now.", phase=PHASES)
        self.phase_seconds = self._counter("phase_seconds", "Time spent in each phase.", phase=PHASES)
        self.state_damaged = self._counter(
            "state_damaged",
            "Damage found in the data directory: files that were set aside, and single rollouts of the buffer.",
            what=STATE_FILES,
        )
        self.disk_free = self._gauge("state_disk_free_bytes", "Free space where the state lives.")
