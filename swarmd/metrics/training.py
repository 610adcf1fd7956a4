"""Metrics of what the node makes and learns."""

from collections.abc import Iterable

from swarmd.metrics.labels import CANARY_VERDICTS, FINISHES, ORIGINS, SAVE_RESULTS, SKIP_REASONS, TOKEN_KINDS
from swarmd.metrics.series import Series


class TrainingMetrics(Series):
    """Own rollouts, scores, updates, the canary and evaluations."""

    def _make_generation(self) -> None:
        self.rollouts_shared = self._counter("share_rollouts", "Own rollouts shared.")
        self.completions = self._counter(
            "generate_completions", "Own completions by how they ended.", finish=FINISHES
        )
        self.generate_tokens = self._counter("generate_tokens", "Tokens of own generation.", kind=TOKEN_KINDS)
        self.generate_seconds = self._histogram("generate_batch_seconds", "One generation.")
        self.weight_sync_seconds = self._histogram(
            "generate_weight_sync_seconds", "New weights into an engine that keeps its own."
        )
        self.generate_staleness = self._gauge(
            "generate_staleness_updates", "Updates between generation and use, last round."
        )

    def _make_scoring(self) -> None:
        self.reward_mean = self._gauge("reward_mean", "Mean reward of the last round.", "task", "origin")
        self.informative_ratio = self._gauge(
            "reward_informative_ratio", "Share of rollouts with unequal rewards.", "origin"
        )
        self.score_seconds = self._histogram(
            "verify_seconds", "Batches of one author through the scorer, one or several at a time."
        )
        self.score_failures = self._counter(
            "verify_failures", "Completions that could not be scored.", "reason"
        )

    def _make_rounds(self, datasets: Iterable[str]) -> None:
        self.rounds = self._counter("train_rounds", "Rounds completed.")
        self.steps = self._counter("train_steps", "Optimizer steps.")
        self.last_step = self._gauge("train_last_step_timestamp_seconds", "When the last round ended.")
        self.step_seconds = self._histogram("train_step_seconds", "One update.")
        self.samples = self._counter(
            "train_samples", "Rollouts that entered an update.", origin=ORIGINS, task=datasets
        )
        self.tokens = self._counter(
            "train_tokens", "Completion tokens that entered an update.", origin=ORIGINS
        )
        self.external_ratio = self._gauge("train_external_ratio", "External share of the last training set.")
        self.external_target = self._gauge("train_external_target_ratio", "The share asked for, J/(I+J).")
        self.loss = self._gauge("train_loss", "Loss of the last update.")
        self.grad_norm = self._gauge("train_grad_norm", "Gradient norm of the last update, before clipping.")
        self.clip_ratio = self._gauge(
            "train_clip_ratio", "Share of tokens clipped in the last update.", "side"
        )
        self.skipped = self._counter(
            "train_skipped_steps", "Rounds without an optimizer step.", reason=SKIP_REASONS
        )
        self.checkpoint_last = self._gauge("checkpoint_last_timestamp_seconds", "Last good checkpoint.")
        self.checkpoint_saves = self._counter("checkpoint_saves", "Checkpoint writes.", result=SAVE_RESULTS)
        self.checkpoint_bytes = self._counter("checkpoint_written_bytes", "Bytes of checkpoints written.")
        self.checkpoint_held = self._counter(
            "checkpoint_held_seconds", "Seconds that training waited for checkpoints."
        )
        self.rounds_lost = self._counter(
            "train_rounds_lost", "Rounds lost with a process, after the newest checkpoint."
        )

    def _make_externals(self) -> None:
        """What external rollouts did to the last update, and the gap between engine and trainer."""
        self.external_weight = self._gauge(
            "train_external_weight", "Mean weight in front of external completions, last update."
        )
        self.external_weight_zero = self._gauge(
            "train_external_zero_weight_ratio", "Share of external completions of weight 0, last update."
        )
        self.external_likelihood = self._gauge(
            "train_external_likelihood_ratio",
            "Own over claimed probability a token of external completions, last update.",
        )
        self.external_dropped = self._counter(
            "train_external_dropped", "External completions left out of updates as too unlikely here."
        )
        self.external_floor = self._gauge(
            "train_external_logp_min",
            "Below which they are, in nats: the log-prob a token, in the mean or of any token; last update.",
            "of",
        )
        self.external_capped = self._counter("train_external_capped", "External rollouts held down by a cap.")
        self.external_share = self._gauge(
            "train_external_weight_share_ratio",
            "What external rollouts weighed of the last update, held down.",
        )
        self.mismatch = self._gauge(
            "train_mismatch_ratio", "Trainer's over engine's probability of own tokens, last update.", "stat"
        )
        self.mismatch_cut = self._gauge(
            "train_mismatch_cut_ratio", "Share of own tokens capped, last update."
        )
        # Fields of the update's record that are gauges as they are.
        self.of_update = {
            "loss": self.loss,
            "grad_norm": self.grad_norm,
            "clip_ratio_low": self.clip_ratio.labels("low"),
            "clip_ratio_high": self.clip_ratio.labels("high"),
            "external_weight_mean": self.external_weight,
            "external_weight_zero": self.external_weight_zero,
            "external_logp_min": self.external_floor.labels("mean"),
            "external_token_logp_min": self.external_floor.labels("token"),
            "external_share": self.external_share,
            "external_likelihood_ratio": self.external_likelihood,
            "mismatch_ratio_mean": self.mismatch.labels("mean"),
            "mismatch_ratio_p99": self.mismatch.labels("p99"),
            "mismatch_ratio_max": self.mismatch.labels("max"),
            "mismatch_cut": self.mismatch_cut,
        }

    def _make_canary(self) -> None:
        self.canary_checks = self._counter(
            "trust_canary_checks", "Measurements of the canary.", verdict=CANARY_VERDICTS
        )
        self.canary_score = self._gauge("trust_canary_score", "Mean reward on the canary's questions.")
        self.canary_drop = self._gauge(
            "trust_canary_drop", "How far that is below its best, question by question."
        )
        self.rollbacks = self._counter(
            "trust_rollbacks", "Times the policy went back to an earlier checkpoint."
        )
        self.falls = self._gauge(
            "trust_falls", "Falls of the policy with others' rollouts in use that are remembered."
        )
        self.alone_rounds = self._gauge(
            "trust_alone_rounds", "Rounds that are still to be learnt alone after them."
        )
        self.authors_out = self._gauge(
            "trust_authors_out", "Authors with something to draw who are not back yet."
        )
        self.quarantined = self._counter(
            "trust_quarantined_rollouts", "External rollouts set aside by the canary."
        )
        self.eval_score = self._gauge("eval_score", "Mean reward on the held-out questions.")
        self.eval_error = self._gauge("eval_standard_error", "Standard error of that mean.")
