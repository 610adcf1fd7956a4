"""What an update reports. Shares are over trained tokens; None means that there were none to measure."""

from dataclasses import dataclass


@dataclass(frozen=True)
class UpdateStats:
    """One round's update in numbers.

    Attributes:
        skipped: None, "no_data", "zero_advantage" or "non_finite"; the weights are then as they were before the step.
        num_tokens_*: completion tokens of the round, forwarded or not; what the token mean divides by.
        num_masked: completions left out because they were cut (`mask_unfinished`).
        num_tokens_trained: completion tokens with a gradient, summed over steps.
        num_tokens_forwarded: tokens that went through the model for the gradient, shared prompts once a pack.
        clip_ratio_*: share of trained tokens whose gradient the clip removed, by side, then by origin.
        mean_logp_*: mean own log-prob of trained tokens; how (un)likely the own policy finds the others' text.
        external_weight_mean, external_weight_zero, external_effective_share: of the weights in front of external completions that
            have an advantage (under `shaped` of their tokens): mean, share of zeros, effective sample size over the number.
        num_external_dropped: external completions that the floor left out; external_logp_min: the floor of their mean
            log-prob a token, None while there is none; external_token_logp_min: that of their least likely token.
        left_out: places of external rollouts of which nothing was left to train on: below the floor, or too long for this model.
        num_external_capped: external rollouts held down by a cap; external_share: what all of them weigh of the round, held down.
        external_likelihood_ratio: own over claimed probability a token, geometric mean, where both were needed and known.
        imitation_loss: mean cross-entropy of imitated tokens in nats, without the coefficient.
        mismatch_ratio_*: trainer's over engine's probability of trained own tokens before the first step.
        mismatch_cut: share of those tokens whose ratio was capped, or of own completions that the mask left out.
        entropy: mean of the policy at a sample of trained tokens, in nats.
        fast_path, self_check: whether prompts were shared, and what the one-time comparison said.
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
    clip_ratio_low_local: float | None = None
    clip_ratio_high_local: float | None = None
    clip_ratio_low_external: float | None = None
    clip_ratio_high_external: float | None = None
    mean_logp_local: float | None = None
    mean_logp_external: float | None = None
    external_weight_mean: float | None = None
    external_weight_zero: float | None = None
    external_effective_share: float | None = None
    num_external_dropped: int = 0
    external_logp_min: float | None = None
    external_token_logp_min: float | None = None
    left_out: tuple[int, ...] = ()
    num_external_capped: int = 0
    external_share: float | None = None
    external_likelihood_ratio: float | None = None
    imitation_loss: float | None = None
    mismatch_ratio_mean: float | None = None
    mismatch_ratio_p99: float | None = None
    mismatch_ratio_max: float | None = None
    mismatch_cut: float | None = None
    entropy: float | None = None
    fast_path: bool = False
    self_check: str = ""
    skipped: str | None = None
    seconds: float = 0.0
