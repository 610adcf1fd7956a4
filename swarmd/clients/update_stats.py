"""What an update reports."""

from dataclasses import dataclass


@dataclass(frozen=True)
class UpdateStats:
    """One round's update in numbers: one field for each key of docs/reference/rounds.md that the update measures.

    Shares are over trained tokens, and None means that there was nothing to measure. `seconds` is the optimizer's time.
    `left_out` are the places, in the training set, of external rollouts of which nothing was left to train on: below the floor,
    or too long for this model.
    """

    loss: float = 0.0
    grad_norm: float = 0.0
    num_steps: int = 0
    num_rollouts_local: int = 0
    num_rollouts_external: int = 0
    num_completions: int = 0
    num_zero_advantage: int = 0
    num_masked: int = 0
    num_tokens_local: int = 0
    num_tokens_external: int = 0
    num_tokens_trained: int = 0
    num_tokens_forwarded: int = 0
    num_micro_batches: int = 0
    clip_ratio_low: float = 0.0
    clip_ratio_high: float = 0.0
    mean_logp_local: float | None = None
    mean_logp_external: float | None = None
    external_weight_mean: float | None = None
    external_weight_zero: float | None = None
    num_external_dropped: int = 0
    external_logp_min: float | None = None
    external_token_logp_min: float | None = None
    left_out: tuple[int, ...] = ()
    num_external_capped: int = 0
    external_share: float | None = None
    external_likelihood_ratio: float | None = None
    mismatch_ratio_mean: float | None = None
    mismatch_ratio_p99: float | None = None
    mismatch_ratio_max: float | None = None
    mismatch_cut: float | None = None
    entropy: float | None = None
    fast_path: bool = False
    slow_cost: float | None = None
    self_check: str = ""
    skipped: str | None = None
    seconds: float = 0.0
