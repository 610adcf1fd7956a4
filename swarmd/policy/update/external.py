"""How much an external completion counts: six weightings as pure functions. Every weight is finite and lies in [0, 1].

A weight is detached and stands in front of the same loss that own completions have. A sender says something of itself: a claim.
A claim can only lower the weight, which is at most the 1 of `as-own`. So a false claim can only lose.
`shaped` weighs single tokens, by the policy's own probability; `imitate` replaces the loss (`loss.TokenLoss.imitating`).
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from swarmd.clients.update_stats import UpdateStats
from swarmd.config import UpdateSection
from swarmd.policy.update.packing import TokenCompletion

# LUFFY's constant (arXiv 2504.14945): a token of probability 0.1 counts half. At half, tokens below 5 % are the ones
# held back; at double, tokens that one would sample every fifth time are.
SHAPING = 0.1
# HACPO's lower end of the ratio (arXiv 2603.02604): a completion that the own policy finds unlikely still counts 0.8.
CROSS_RATIO_MIN = 0.8
# Mean log ratios are held within this for the gauge: past it a weight is 0 or 1 anyway, and one wild claim must not hide the rest.
LOG_RATIO_SHOWN_MAX = 5.0


def claimed_logp(
    logprob_sum: float | None, num_tokens: int | None, *, num_own_tokens: int, whole: bool
) -> float | None:
    """The sender's claim for the text, in nats per token of *ours*; None where the claim is of no use.

    Sender and receiver may cut one text into different tokens, so their means a token are not comparable: a byte-level sender
    with the very same probability for the text would look eight times as sure. The sums are: both are the log-probability of one
    text. So the sender's sum is divided by our number of tokens, as our own is. Where we keep only the text's beginning
    (not `whole`), the sender's own mean a token stands in for what it would have claimed for that part.

    The claim holds at the sender's sampling temperature, as the own log-probs do at ours. A positive sum reads as 0 (`proto/`).
    """
    if logprob_sum is None or num_tokens is None or num_tokens < 1 or num_own_tokens < 1:
        return None
    if not math.isfinite(logprob_sum):
        return None
    return min(logprob_sum, 0.0) / (num_own_tokens if whole else num_tokens)


def needs_own_logp(completion: TokenCompletion, update: UpdateSection) -> bool:
    """Whether this external completion's weight depends on the own policy's log-probs before the update."""
    if not completion.ids or completion.advantage == 0:
        return False
    if update.external_weighting == "tapered":
        return completion.advantage < 0
    return update.external_weighting == "cross" and completion.claimed_logp is not None


def weight(
    completion: TokenCompletion, own_logp: float | None, capability: float, update: UpdateSection
) -> float:
    """The completion's weight under `update.external_weighting`.

    Args:
        own_logp: mean log-prob of its tokens before the update; only where `needs_own_logp`.
        capability: the author's mean reward over ours, at most 1, as this node measured it.
    """
    kind, advantage = update.external_weighting, completion.advantage
    if kind == "positive":
        return float(advantage > 0)
    if kind == "imitate":
        return float(completion.best)
    if kind == "tapered":
        if advantage >= 0:
            return 1.0
        if own_logp is None or not own_logp >= update.external_logp_floor:
            return 0.0  # whatever is claimed: a claim may only lower a weight
        return 1.0 if completion.claimed_logp is None else ratio(own_logp, completion.claimed_logp)
    if kind == "cross":
        found = 1.0
        if completion.claimed_logp is not None:
            found = max(CROSS_RATIO_MIN, ratio(own_logp, completion.claimed_logp))
        powered: float = found**update.external_alpha
        return min(1.0, powered * min(1.0, max(0.0, capability)))
    return 1.0  # as-own; and shaped, which weighs tokens


def ratio(own_logp: float | None, claimed: float) -> float:
    """`min(1, exp(own - claimed))`, and 0 where the own log-prob is missing or no number."""
    if own_logp is None or not math.isfinite(own_logp):
        return 0.0
    return math.exp(min(0.0, own_logp - claimed))


def shaping(logps_N: Tensor) -> Tensor:
    """LUFFY's factor of each token, `pi / (pi + 0.1)`: what the policy would never say itself hardly moves it."""
    probabilities_N = torch.exp(logps_N)
    return probabilities_N / (probabilities_N + SHAPING)


def weighed(stats: UpdateStats, weights: Sequence[float]) -> UpdateStats:
    """The stats with what stood in front of external completions, or of their tokens."""
    if not weights:
        return stats
    return replace(
        stats,
        external_weight_mean=math.fsum(weights) / len(weights),
        external_weight_zero=weights.count(0.0) / len(weights),
        external_effective_share=effective_share(weights),
    )


def effective_share(weights: Sequence[float]) -> float | None:
    """Kish's effective sample size over the number, `(sum w)^2 / (n sum w^2)`: 1 when all count alike; None of nothing."""
    squares = math.fsum(value * value for value in weights)
    return math.fsum(weights) ** 2 / (len(weights) * squares) if squares > 0 else None


def mean_shown_ratio(log_ratios: Sequence[float]) -> float | None:
    """Geometric mean of own over sender's probability a token, each held within `LOG_RATIO_SHOWN_MAX`; None of nothing."""
    held = [max(-LOG_RATIO_SHOWN_MAX, min(LOG_RATIO_SHOWN_MAX, value)) for value in log_ratios]
    return math.exp(math.fsum(held) / len(held)) if held else None
