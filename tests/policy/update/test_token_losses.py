"""The clipped loss of single tokens: closed-form slope, both clips, and what must not be swallowed."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from swarmd.policy.update.token_losses import clipped_loss

CLIP = {"clip_low": 0.2, "clip_high": 0.28}
finite = st.floats(-4, 4, allow_nan=False)


def one(value: float) -> torch.Tensor:
    return torch.tensor([value], dtype=torch.float64)


@given(finite, finite, finite)
def test_slope_is_what_autograd_finds(logp: float, old: float, advantage: float) -> None:
    leaf = one(logp).requires_grad_()
    ratio = (leaf - one(old)).exp()
    plain = -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.28) * advantage)
    (wanted,) = torch.autograd.grad(plain.sum(), leaf)
    found = clipped_loss(one(logp), one(old), one(advantage), **CLIP)
    assert torch.allclose(found.slope_N, wanted, rtol=1e-12)
    assert torch.allclose(found.loss_N, plain.detach(), rtol=1e-12)


@pytest.mark.parametrize("old", [None, one(math.nan)])
def test_without_old_log_probs_the_ratio_is_exactly_one(old: torch.Tensor | None) -> None:
    found = clipped_loss(one(-3.21), old, one(0.7), **CLIP)
    assert found.loss_N.item() == found.slope_N.item() == -0.7
    assert not found.clipped_low_N.any()
    assert not found.clipped_high_N.any()


@pytest.mark.parametrize(
    ("ratio", "advantage", "low", "high"),
    [
        (1.3, 1.0, False, True),  # already likelier than it was: no further push up
        (1.3, -1.0, False, False),  # but it may still be pushed down
        (0.7, -1.0, True, False),
        (0.7, 1.0, False, False),
        (1.27, 1.0, False, False),  # within: the upper bound is 1.28, not 1.2
        (0.79, -1.0, True, False),
    ],
)
def test_each_side_clips_its_own_sign(ratio: float, advantage: float, low: bool, high: bool) -> None:
    found = clipped_loss(one(math.log(ratio)), one(0.0), one(advantage), **CLIP)
    assert (bool(found.clipped_low_N), bool(found.clipped_high_N)) == (low, high)
    assert (found.slope_N.item() == 0) == (low or high)


@pytest.mark.parametrize(
    ("logp", "old", "advantage"), [(math.nan, -1, 1), (-1, -1, math.nan), (900, -900, -1)]
)
def test_non_finite_values_reach_the_loss(logp: float, old: float, advantage: float) -> None:
    assert not clipped_loss(one(logp), one(old), one(advantage), **CLIP).loss_N.isfinite().all()
