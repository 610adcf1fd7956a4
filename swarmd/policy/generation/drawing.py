"""One token for each row of logits, drawn by inverting the cumulative distribution at a given uniform number."""

import torch
from torch import Tensor

# Below this, softmax of logits / temperature is the argmax in float32 anyway, and dividing would overflow.
_GREEDY_BELOW = 1e-4


def draw(logits_RV: Tensor, uniform_R: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Tokens (R) and their log-probs (R, nats) under softmax(logits / temperature), with nothing truncated.

    The sum is taken in float64: over 150k tokens a float32 sum is off by more than the rarer tokens' whole probability.
    At temperature 0 the likeliest token is taken, and its log-prob is that at temperature 1.

    Args:
        logits_RV: any float type; R rows over a vocabulary of V.
        uniform_R: float64 in [0, 1), one number a row.
        temperature: 0 or above.
    """
    if temperature < _GREEDY_BELOW:
        logps_RV = torch.log_softmax(logits_RV.float(), dim=-1)
        tokens_R = logps_RV.argmax(dim=-1)
    else:
        logps_RV = torch.log_softmax(logits_RV.float() / temperature, dim=-1)
        sums_RV = logps_RV.double().exp_().cumsum(dim=-1)
        # The first token whose sum lies above the number: a token of probability zero adds nothing and is never that.
        thresholds_R1 = uniform_R[:, None] * sums_RV[:, -1:]
        tokens_R = torch.searchsorted(sums_RV, thresholds_R1, right=True).squeeze(1)
        tokens_R.clamp_(max=sums_RV.shape[1] - 1)
    return tokens_R, logps_RV.gather(1, tokens_R[:, None]).squeeze(1)
