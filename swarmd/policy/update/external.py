"""How much an external completion counts: three weightings as pure functions. Every weight is finite and lies in [0, 1].

A weight is detached and stands in front of the same loss that own completions have. A sender says something of itself: a claim.
A claim can only lower the weight, which is at most the 1 of `as-own`. So a false claim can only lose.
"""

import math
from collections.abc import Sequence

from swarmd.config import UpdateSection
from swarmd.policy.update.packing import TokenCompletion

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
    return update.external_weighting == "tapered" and completion.advantage < 0


def weight(completion: TokenCompletion, own_logp: float | None, update: UpdateSection) -> float:
    """The completion's weight under `update.external_weighting`.

    Args:
        own_logp: mean log-prob of its tokens before the update; only where `needs_own_logp`.
    """
    if update.external_weighting == "positive":
        return float(completion.advantage > 0)
    if not needs_own_logp(completion, update):
        return 1.0
    if own_logp is None or not own_logp >= update.external_logp_floor:
        return 0.0  # whatever is claimed: a claim may only lower a weight
    if completion.claimed_logp is None:
        return 1.0
    return math.exp(min(0.0, own_logp - completion.claimed_logp))


def mean_shown_ratio(log_ratios: Sequence[float]) -> float | None:
    """Geometric mean of own over sender's probability a token, each held within `LOG_RATIO_SHOWN_MAX`; None of nothing."""
    held = [max(-LOG_RATIO_SHOWN_MAX, min(LOG_RATIO_SHOWN_MAX, value)) for value in log_ratios]
    return math.exp(math.fsum(held) / len(held)) if held else None
