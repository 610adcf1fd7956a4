"""Metrics of what comes from others."""

from collections.abc import Iterable

from swarmd.metrics.labels import (
    BANNED_BY,
    BYTES,
    DIALS,
    DIRECTIONS,
    DISCARD_REASONS,
    EFFECTIVE_OF,
    PUBLISH_RESULTS,
    REACHED,
    REFUSALS,
    REFUSED,
    SIGNALS,
    STANDINGS,
    TRUST_DROPS,
    TRUST_EVIDENCE,
    VERDICTS,
)
from swarmd.metrics.series import Series


class SwarmMetrics(Series):
    """Gossip, the buffer, and the authors."""

    def _make_gossip(self, rules: Iterable[str]) -> None:
        self.peers = self._gauge("p2p_peers", "Connected peers.", direction=DIRECTIONS)
        self.p2p_bytes = self._counter(
            "p2p_bytes", "Bytes of all connections with peers, encryption included.", direction=BYTES
        )
        self.dials = self._counter("p2p_dials", "Own dials, by how they ended.", result=DIALS)
        self.refused_inbound = self._counter(
            "p2p_refused",
            "Inbound connections turned away: no place left, too many of one address, no handshake; or closed for a newcomer.",
            why=REFUSALS,
        )
        self.dialled_back = self._gauge(
            "p2p_dialled_back",
            "Peers outside the own network that tried to connect to this node within half an hour, by whether they could.",
            result=REACHED,
        )
        self.mesh_peers = self._gauge("gossip_mesh_peers", "Peers in the gossip mesh of the topic.")
        self.published = self._counter("gossip_published", "Own messages published.", result=PUBLISH_RESULTS)
        self.received = self._counter("gossip_received", "Messages received from others, each once.")
        self.gossip_duplicates = self._counter(
            "gossip_duplicates", "Messages that came again through another peer; they are dropped unread."
        )
        self.validation = self._counter("gossip_validation", "Verdicts on others' messages.", result=VERDICTS)
        self.rejects = self._counter(
            "gossip_rejects", "Messages not accepted, by the rule that said so.", reason=rules
        )
        self.heartbeat_lag = self._gauge(
            "gossip_heartbeat_lag_seconds", "Worst recent delay of the gossip heartbeat (1 s)."
        )

    def _make_buffer(self) -> None:
        self.buffer_rollouts = self._gauge("buffer_rollouts", "External rollouts held.", signal=SIGNALS)
        self.buffer_bytes = self._gauge("buffer_bytes", "Bytes of external rollouts held.")
        self.buffer_sources = self._gauge("buffer_sources", "Authors with rollouts in the buffer.")
        self.buffer_added = self._counter("buffer_added", "External rollouts stored.")
        self.buffer_evicted = self._counter("buffer_evicted", "External rollouts dropped for space or age.")
        self.buffer_discarded = self._counter(
            "buffer_discarded", "External rollouts offered but not stored.", reason=DISCARD_REASONS
        )
        self.sample_shortfall = self._counter(
            "sample_shortfall", "External rollouts wanted for a round that were not there."
        )
        self.sample_over_age = self._gauge(
            "sample_over_age_rollouts", "Informative external rollouts too old to be drawn, at the last draw."
        )

    def _make_authors(self) -> None:
        self.trust_dropped = self._counter(
            "trust_dropped",
            "Batches not scored: of a banned author, or over a quota.",
            reason=TRUST_DROPS,
        )
        self.trust_evidence = self._counter(
            "trust_evidence",
            "What no honest peer could have done, by what it was.",
            kind=TRUST_EVIDENCE,
        )
        self.trust_bans = self._counter("trust_bans", "Bans, for points or by the operator.", by=BANNED_BY)
        self.trust_authors = self._gauge(
            "trust_authors", "Authors remembered, by their standing.", standing=STANDINGS
        )
        self.trust_refused = self._counter(
            "trust_refused", "Connections and messages of banned peers turned away.", what=REFUSED
        )
        self.trust_duplicates = self._counter("trust_duplicates", "External rollouts that came before.")
        self.trust_copied = self._counter(
            "trust_copied_texts", "Long completions that another author signed before."
        )
        self.trust_effective = self._gauge(
            "trust_effective_authors",
            "1 / sum of squared shares of external rollouts.",
            of=EFFECTIVE_OF,
        )
        self.unproven = self._counter(
            "trust_unproven_rollouts", "Rollouts of authors who are not proven that entered an update."
        )
        self.held_back = self._counter(
            "trust_held_back",
            "Rollouts that a round was short of and may not have: of unproven authors, or of one past its share.",
        )
