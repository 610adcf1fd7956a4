"""The closed sets of label values. No value ever comes from a peer."""

ORIGINS = ("local", "external")
PHASES = ("starting", "idle", "wait", "update", "evaluate")
WORKERS = ("network", "generation", "update", "scorer")
RESTART_REASONS = ("crash", "killed", "memory", "hang", "start", "spawn")
SKIP_REASONS = ("no_data", "zero_advantage", "non_finite", "oom", "failed")
# What of the data directory can be damaged and costs no more than itself: a file by its name in `DataDir`, or one rollout.
STATE_FILES = ("buffer", "rollout", "counters", "standings", "bans", "peers", "history")
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
TRUST_EVIDENCE = (
    "forwarded_reject",
    "signed_reject",
    "broken_rpc",
    "control_flood",
    "forbidden_syscall",
    "forged_reply",
)
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
DIRECTIONS = ("inbound", "outbound")
BYTES = ("in", "out")
# How peers outside our own network fared that tried to connect to us.
REACHED = ("reached", "failed")
# `swarmd.swarm.dial.Dialled`.
DIALS = (
    "connected",
    "refused",
    "timeout",
    "name_unknown",
    "no_resolver",
    "wrong_peer_id",
    "banned",
    "failed",
)
# `swarmd.swarm.stats.REFUSALS`: why an inbound connection did not come to be, or had to go.
REFUSALS = ("full", "address", "failed", "evicted")
VERDICTS = ("accept", "ignore", "reject")
SIGNALS = ("informative", "uninformative")
BANNED_BY = ("points", "operator")
STANDINGS = ("new", "proven", "banned")
# What of a banned peer was turned away.
REFUSED = ("connection", "message")
# External rollouts held, and those used in recent rounds.
EFFECTIVE_OF = ("buffer", "rounds")
FINISHES = ("stop", "length")
TOKEN_KINDS = ("prompt", "completion")

# Codes of what can be wrong (`swarmd.node.health`): those with which a node does not do its work, or loses it, and the others.
UNHEALTHY = (
    "stalled",
    "worker_restarting",
    "worker_silent",
    "worker_unstable",
    "generation_failing",
    "buffer_failing",
    "checkpoint_failing",
    "unsaved",
    "disk_low",
    "disk_read_only",
    "disk_failing",
    "clock_off",
    "nothing_accepted",
)
HEALTH_CODES = (
    *UNHEALTHY,
    "no_peers",
    "bootstrap_wrong_peer",
    "not_reachable",
    "slow_update",
    "canary_fell",
    "others_kept_out",
    "loop_lag",
)
