"""One token for each row of logits, drawn by inverting the cumulative distribution at a given uniform number."""

import torch
from torch import Tensor

# Below this, softmax of logits / temperature is the argmax in float32 anyway, and dividing would overflow.
GREEDY_BELOW = 1e-4
# A vocabulary of more than `_ONE_BLOCK` tokens is summed in blocks of so many. At 64 and 256 the whole draw takes the same within
# 10 % (32k tokens); below about 1,000 tokens the steps of choosing a block cost more than the sums they save.
_BLOCK, _ONE_BLOCK = 128, 1024
# Largest share of a sum that still lies below it after rounding.
_SHARE_MAX = 1 - 2**-50


# Kinds of device without float64.
NARROW_ONLY = ("mps",)


def place_of(device: torch.device) -> torch.device:
    """Where tokens are drawn from logits on `device`: there, or on the CPU where the device has no float64."""
    return torch.device("cpu") if device.type in NARROW_ONLY else device


def draw(logits_RV: Tensor, uniform_R: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Tokens (R) and their log-probs (R, nats) under softmax(logits / temperature), with nothing truncated.

    The draw takes a block of the vocabulary, then a token in the block. Sums within a block are float32, and off by a rounding
    of their own size. Sums across blocks are float64: over 150k tokens a float32 sum is off by more than the whole probability of
    a rare token. A float64 sum of all tokens takes three to nine times as long.
    Temperature 0 takes the likeliest token, with its log-prob at temperature 1.
    `uniform_R` are float64 numbers in [0, 1).
    """
    logits_RV = logits_RV.float()
    if temperature < GREEDY_BELOW:
        tokens_R = logits_RV.argmax(dim=-1)
        totals_R, temperature = logits_RV.logsumexp(dim=-1), 1.0
        top_R = torch.zeros_like(totals_R)
    else:
        top_R = logits_RV.amax(dim=-1)
        weights_RV = _weights(logits_RV, top_R, temperature)
        tokens_R, sums_R = _invert(weights_RV, uniform_R)
        totals_R = sums_R.log()
    chosen_R = logits_RV.gather(1, tokens_R[:, None]).squeeze(1)
    return tokens_R, ((chosen_R - top_R).double() / temperature - totals_R).float()


def _weights(logits_RV: Tensor, top_R: Tensor, temperature: float) -> Tensor:
    """exp((logits - top) / temperature), on the right filled up with zeros to whole blocks."""
    num_tokens = logits_RV.shape[1]
    width = num_tokens + (-num_tokens % _BLOCK)
    weights_RV = logits_RV.new_empty(len(logits_RV), width)
    weights_RV[:, num_tokens:] = 0
    inside = weights_RV[:, :num_tokens]
    torch.sub(logits_RV, top_R[:, None], out=inside)
    if temperature != 1:
        inside.div_(temperature)
    inside.exp_()
    return weights_RV


def _invert(weights_RV: Tensor, uniform_R: Tensor) -> tuple[Tensor, Tensor]:
    """The first token whose cumulative weight lies above the share `uniform_R`, and the sum of all (R, float64).

    A block or token of weight zero adds nothing to the sum and is never that.
    """
    num_rows, width = weights_RV.shape
    if width <= _ONE_BLOCK:
        sums_RV = weights_RV.double().cumsum_(dim=-1)
        thresholds_R1 = uniform_R.clamp(max=_SHARE_MAX)[:, None] * sums_RV[:, -1:]
        places_R1 = torch.searchsorted(sums_RV, thresholds_R1, right=True).clamp_(max=width - 1)
        return places_R1.squeeze(1), sums_RV[:, -1]
    blocks_RNB = weights_RV.view(num_rows, -1, _BLOCK)
    sums_RN = blocks_RNB.sum(dim=-1).double().cumsum_(dim=-1)
    totals_R1 = sums_RN[:, -1:]
    thresholds_R1 = uniform_R[:, None] * totals_R1
    block_R1 = torch.searchsorted(sums_RN, thresholds_R1, right=True).clamp_(max=sums_RN.shape[1] - 1)
    before_R1 = torch.where(block_R1 > 0, sums_RN.gather(1, (block_R1 - 1).clamp_(min=0)), 0.0)
    inside_R1 = (thresholds_R1 - before_R1) / (sums_RN.gather(1, block_R1) - before_R1)
    rows_R = torch.arange(num_rows, device=block_R1.device)
    sums_RB = blocks_RNB[rows_R, block_R1[:, 0]].double().cumsum_(dim=-1)
    within_R1 = inside_R1.clamp_(0.0, _SHARE_MAX) * sums_RB[:, -1:]
    place_R1 = torch.searchsorted(sums_RB, within_R1, right=True).clamp_(max=_BLOCK - 1)
    return (block_R1 * _BLOCK + place_R1).squeeze(1), totals_R1.squeeze(1)
