"""Every Prometheus metric of the node: name, help text and closed label sets, in one place.

No label value ever comes from a peer: names of datasets come from the manifest, rule names from the code. Metrics live in a
registry of their own, so that several nodes (or tests) can exist in one process.
"""

import platform
import time
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector

ORIGINS = ("local", "external")
PHASES = ("starting", "idle", "wait", "update", "evaluate")
WORKERS = ("network", "generation", "update", "scorer")
RESTART_REASONS = ("crash", "killed", "hang", "start")
# The memory plans in order; `swarmd.policy.plans.ladder` has them too.
MEMORY_PLANS = ("resident", "time-share", "checkpointing", "adam-8bit", "host-optimizer", "lora")
SKIP_REASONS = ("no_data", "zero_advantage", "non_finite", "oom", "failed")
DISCARD_REASONS = (
    "held_out",
    "duplicate",
    "scorer_failed",
    "deadline",
    "disk_full",
    "queue_full",
    "outbox",
    "invalid",
    "too_large",
    "banned",
    "over_quota",
)
# Why a batch of another author was not scored: a ban, or which of `swarmd.trust.quotas.QUOTAS` it was over.
TRUST_DROPS = ("banned", "bytes", "tokens", "cpu")
# `swarmd.trust.evidence.Evidence`.
TRUST_EVIDENCE = ("forwarded_reject", "signed_reject", "broken_rpc", "forbidden_syscall", "forged_reply")
PUBLISH_RESULTS = ("ok", "no_peers", "failed")
SAVE_RESULTS = ("ok", "failed")
# The local listeners, and `swarmd.control.http.End`.
CONTROL_SOCKETS = ("tcp", "unix")
CONTROL_ENDS = (
    "answered",
    "foreign",
    "malformed",
    "gone",
    "late",
    "evicted",
    "crowded",
    "unaccepted",
    "failed",
)
CANARY_VERDICTS = ("good", "low", "fallen")

# A 1 s timer's delay: a healthy loop is below 10 ms, a heartbeat (1 s) is in danger above 500 ms.
_LAG_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
_SECONDS_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)


class Metrics:
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
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"swarmd_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"swarmd_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...] = _SECONDS_BUCKETS) -> Histogram:
            return Histogram(f"swarmd_{name}", text, buckets=buckets, registry=registry)

        self.build_info = gauge("build_info", "Constant 1; what is running.", "version", "python")
        self.node_info = gauge(
            "node_info", "Constant 1; this node's own id, model and swarm.", "peer_id", "model", "swarm"
        )
        self.ready = gauge("ready", "1 once the workers are up and the buffer is open.")
        self.worker_up = gauge("worker_up", "1 while the child process is there to be called.", "worker")
        self.worker_restarts = counter("worker_restarts", "Child processes replaced.", "worker", "reason")
        self.loop_lag = histogram(
            "loop_lag_seconds", "Delay of a 1 s timer: the event loop's health.", _LAG_BUCKETS_S
        )
        self.control_connections = counter(
            "control_connections", "Connections to the local sockets, by how they ended.", "socket", "end"
        )
        self.memory_plan = gauge("memory_plan", "State set: the memory plan in force.", "plan")
        self.memory_plan_changes = counter("memory_plan_changes", "Changes of the memory plan while running.")
        self.phase = gauge("phase", "State set: what the update loop does now.", "phase")
        self.phase_seconds = counter("phase_seconds", "Time spent in each phase.", "phase")
        self.disk_free = gauge("state_disk_free_bytes", "Free space where the state lives.")

        self.peers = gauge("p2p_peers", "Connected peers.", "direction")
        self.mesh_peers = gauge("gossip_mesh_peers", "Peers in the gossip mesh of the topic.")
        self.published = counter("gossip_published", "Own messages published.", "result")
        self.received = counter(
            "gossip_received", "Messages received from others, before duplicates are dropped."
        )
        self.validation = counter("gossip_validation", "Verdicts on others' messages.", "result")
        self.rejects = counter("gossip_rejects", "Messages not accepted, by the rule that said so.", "reason")
        self.heartbeat_lag = gauge(
            "gossip_heartbeat_lag_seconds", "Worst recent delay of the gossip heartbeat (1 s)."
        )

        self.buffer_rollouts = gauge("buffer_rollouts", "External rollouts held.", "signal")
        self.buffer_bytes = gauge("buffer_bytes", "Bytes of external rollouts held.")
        self.buffer_sources = gauge("buffer_sources", "Authors with rollouts in the buffer.")
        self.buffer_added = counter("buffer_added", "External rollouts stored.")
        self.buffer_evicted = counter("buffer_evicted", "External rollouts dropped for space or age.")
        self.buffer_discarded = counter(
            "buffer_discarded", "External rollouts offered but not stored.", "reason"
        )
        self.sample_shortfall = counter(
            "sample_shortfall", "External rollouts wanted for a round that were not there."
        )
        self.sample_over_age = gauge(
            "sample_over_age_rollouts", "Informative external rollouts too old to be drawn, at the last draw."
        )

        self.trust_dropped = counter(
            "trust_dropped", "Batches not scored: of a banned author, or over a quota.", "reason"
        )
        self.trust_evidence = counter(
            "trust_evidence", "What no honest peer could have done, by what it was.", "kind"
        )
        self.trust_bans = counter("trust_bans", "Bans, for points or by the operator.", "by")
        self.trust_authors = gauge("trust_authors", "Authors remembered, by their standing.", "standing")
        self.trust_refused = counter(
            "trust_refused", "Connections and messages of banned peers turned away.", "what"
        )
        self.trust_duplicates = counter("trust_duplicates", "External rollouts that came before.")
        self.trust_copied = counter(
            "trust_copied_texts", "Long completions that another author signed before."
        )
        self.trust_effective = gauge(
            "trust_effective_authors", "1 / sum of squared shares of external rollouts.", "of"
        )

        self.rollouts_shared = counter("share_rollouts", "Own rollouts shared.")
        self.completions = counter("generate_completions", "Own completions by how they ended.", "finish")
        self.generate_tokens = counter("generate_tokens", "Tokens of own generation.", "kind")
        self.generate_seconds = histogram("generate_batch_seconds", "One generation batch.")
        self.weight_sync_seconds = histogram(
            "generate_weight_sync_seconds", "New weights into an engine that keeps its own."
        )
        self.generate_staleness = gauge(
            "generate_staleness_updates", "Updates between generation and use, last round."
        )

        self.reward_mean = gauge("reward_mean", "Mean reward of the last round.", "task", "origin")
        self.informative_ratio = gauge(
            "reward_informative_ratio", "Share of rollouts with unequal rewards.", "origin"
        )
        self.score_seconds = histogram(
            "verify_seconds", "Batches of one author through the scorer, one or several at a time."
        )
        self.score_failures = counter("verify_failures", "Completions that could not be scored.", "reason")

        self.rounds = counter("train_rounds", "Rounds completed.")
        self.steps = counter("train_steps", "Optimizer steps.")
        self.last_step = gauge("train_last_step_timestamp_seconds", "When the last round ended.")
        self.step_seconds = histogram("train_step_seconds", "One update.")
        self.samples = counter("train_samples", "Rollouts that entered an update.", "origin", "task")
        self.tokens = counter("train_tokens", "Completion tokens that entered an update.", "origin")
        self.external_ratio = gauge("train_external_ratio", "External share of the last training set.")
        self.external_target = gauge("train_external_target_ratio", "The share asked for, J/(I+J).")
        self.loss = gauge("train_loss", "Loss of the last update.")
        self.grad_norm = gauge("train_grad_norm", "Gradient norm of the last update, before clipping.")
        self.clip_ratio = gauge("train_clip_ratio", "Share of tokens clipped in the last update.", "side")
        self.external_weight = gauge(
            "train_external_weight", "Mean weight in front of external completions, last update."
        )
        self.external_weight_zero = gauge(
            "train_external_zero_weight_ratio", "Share of external completions of weight 0, last update."
        )
        self.external_effective = gauge(
            "train_external_effective_ratio",
            "Effective sample size of the external weights over their number, last update.",
        )
        self.external_likelihood = gauge(
            "train_external_likelihood_ratio",
            "Own over claimed probability a token of external completions, last update.",
        )
        self.external_dropped = counter(
            "train_external_dropped", "External completions left out of updates as too unlikely here."
        )
        self.external_floor = gauge(
            "train_external_logp_min",
            "Below which they are, in nats: the log-prob a token, in the mean or of any token; last update.",
            "of",
        )
        self.external_capped = counter("train_external_capped", "External rollouts held down by a cap.")
        self.external_share = gauge(
            "train_external_weight_share_ratio",
            "What external rollouts weighed of the last update, held down.",
        )
        self.imitation_loss = gauge(
            "train_imitation_loss", "Cross-entropy of imitated tokens in nats, last update."
        )
        self.mismatch = gauge(
            "train_mismatch_ratio", "Trainer's over engine's probability of own tokens, last update.", "stat"
        )
        self.mismatch_cut = gauge(
            "train_mismatch_cut_ratio", "Share of own tokens capped or completions masked, last update."
        )
        # Fields of the update's record that are gauges as they are.
        self.of_update = {
            "loss": self.loss,
            "grad_norm": self.grad_norm,
            "clip_ratio_low": self.clip_ratio.labels("low"),
            "clip_ratio_high": self.clip_ratio.labels("high"),
            "external_weight_mean": self.external_weight,
            "external_weight_zero": self.external_weight_zero,
            "external_effective_share": self.external_effective,
            "external_logp_min": self.external_floor.labels("mean"),
            "external_token_logp_min": self.external_floor.labels("token"),
            "external_share": self.external_share,
            "external_likelihood_ratio": self.external_likelihood,
            "imitation_loss": self.imitation_loss,
            "mismatch_ratio_mean": self.mismatch.labels("mean"),
            "mismatch_ratio_p99": self.mismatch.labels("p99"),
            "mismatch_ratio_max": self.mismatch.labels("max"),
            "mismatch_cut": self.mismatch_cut,
        }
        self.skipped = counter("train_skipped_steps", "Rounds without an optimizer step.", "reason")
        self.checkpoint_last = gauge("checkpoint_last_timestamp_seconds", "Last good checkpoint.")
        self.checkpoint_saves = counter("checkpoint_saves", "Checkpoint writes.", "result")
        self.unproven = counter(
            "trust_unproven_rollouts", "Rollouts of authors who are not proven that entered an update."
        )
        self.held_back = counter(
            "trust_held_back",
            "Rollouts that a round was short of and may not have: of unproven authors, or of one past its share.",
        )
        self.canary_checks = counter("trust_canary_checks", "Measurements of the canary.", "verdict")
        self.canary_score = gauge("trust_canary_score", "Mean reward on the canary's questions.")
        self.canary_drop = gauge("trust_canary_drop", "How far that is below its best, question by question.")
        self.rollbacks = counter("trust_rollbacks", "Times the policy went back to an earlier checkpoint.")
        self.falls = gauge(
            "trust_falls", "Falls of the policy with others' rollouts in use that are remembered."
        )
        self.alone_rounds = gauge(
            "trust_alone_rounds", "Rounds that are still to be learnt alone after them."
        )
        self.authors_out = gauge("trust_authors_out", "Authors with something to draw who are not back yet.")
        self.quarantined = counter("trust_quarantined_rollouts", "External rollouts set aside by the canary.")
        self.eval_score = gauge("eval_score", "Mean reward on the held-out questions.")
        self.eval_error = gauge("eval_standard_error", "Standard error of that mean.")

        self._preset(tuple(datasets), tuple(rules))

    def _preset(self, datasets: tuple[str, ...], rules: tuple[str, ...]) -> None:
        """Make every series exist from the start, so that rates work from the first event."""
        from swarmd import __version__

        self.build_info.labels(version=__version__, python=platform.python_version()).set(1)
        for metric, values in (
            (self.worker_up, WORKERS),
            (self.phase, PHASES),
            (self.memory_plan, MEMORY_PLANS),
            (self.phase_seconds, PHASES),
            (self.peers, ("inbound", "outbound")),
            (self.published, PUBLISH_RESULTS),
            (self.validation, ("accept", "ignore", "reject")),
            (self.rejects, rules),
            (self.buffer_rollouts, ("informative", "uninformative")),
            (self.buffer_discarded, DISCARD_REASONS),
            (self.trust_dropped, TRUST_DROPS),
            (self.trust_evidence, TRUST_EVIDENCE),
            (self.trust_bans, ("points", "operator")),
            (self.trust_authors, ("new", "proven", "banned")),
            (self.trust_refused, ("connection", "message")),
            (self.trust_effective, ("buffer", "rounds")),
            (self.completions, ("stop", "length")),
            (self.generate_tokens, ("prompt", "completion")),
            (self.tokens, ORIGINS),
            (self.skipped, SKIP_REASONS),
            (self.checkpoint_saves, SAVE_RESULTS),
            (self.canary_checks, CANARY_VERDICTS),
        ):
            for value in values:
                metric.labels(value)
        for worker in WORKERS:
            for reason in RESTART_REASONS:
                self.worker_restarts.labels(worker, reason)
        for name in CONTROL_SOCKETS:
            for end in CONTROL_ENDS:
                self.control_connections.labels(name, end)
        for origin in ORIGINS:
            for dataset in datasets:
                self.samples.labels(origin, dataset)

    def set_phase(self, phase: str) -> None:
        """Exactly one phase is 1; the time until now belongs to the one before."""
        self._count_phase()
        self._phase_now = phase
        for name in PHASES:
            self.phase.labels(name).set(1 if name == phase else 0)

    def set_memory_plan(self, name: str) -> None:
        """Exactly one plan is 1."""
        for plan in MEMORY_PLANS:
            self.memory_plan.labels(plan).set(1 if plan == name else 0)

    def count_connection(self, name: str, end: str) -> None:
        """A connection to the local socket `name` ended so."""
        self.control_connections.labels(name, end).inc()

    def render(self) -> bytes:
        """The exposition text, with the phase under way counted up to now."""
        self._count_phase()
        return bytes(generate_latest(self.registry))

    def _count_phase(self) -> None:
        now_s = self._monotonic_s()
        self.phase_seconds.labels(self._phase_now).inc(now_s - self._phase_since_s)
        self._phase_since_s = now_s


class CounterMirror:
    """Adds the growth of a child's running totals to a counter, also across the child's restarts."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def growth(self, totals: Mapping[str, float]) -> dict[str, float]:
        """How much each total grew since the last call; a smaller total means that the child began anew."""
        grown = {}
        for name, total in totals.items():
            last = self._last.get(name, 0)
            grown[name] = total - last if total >= last else total
            self._last[name] = total
        return grown
