"""Loss and its derivative by every log-prob against TRL's own `GRPOTrainer._compute_loss`, called as it is."""

from collections import defaultdict
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

from swarmd.config import Config
from swarmd.policy.update.token_losses import clipped_loss
from swarmd.policy.update.weighting import token_weights
from tests.policy.settings import config

trl = pytest.importorskip("trl", minversion="1.16", reason="TRL comes with the dev extra")
TOKENS_MAX, LENGTHS = 7, (5, 1, 7, 3, 2, 6)


class _Given:
    """What `_compute_loss` reads of a trainer, with the log-probs handed in instead of a model's."""

    def __init__(self, logps_BT: Tensor, settings: Config) -> None:
        self.aux_loss_enabled = self.use_vllm = self._entropy_bonus_enabled = False
        self.top_entropy_quantile, self.off_policy_mask_threshold, self.beta = 1.0, None, 0.0
        self.importance_sampling_level, self.loss_type = "token", settings.update.aggregation
        self.epsilon_low, self.epsilon_high = settings.update.clip_low, settings.update.clip_high
        self.max_completion_length = TOKENS_MAX
        self.current_gradient_accumulation_steps = 1
        self.args = SimpleNamespace(delta=None, steps_per_generation=1)
        self.model = SimpleNamespace(training=True)
        self.accelerator = SimpleNamespace(
            num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x, sync_gradients=True
        )
        self._metrics: dict[str, Any] = {"train": defaultdict(list)}
        self._logps_BT = logps_BT

    def _get_per_token_logps_and_entropies(self, *_: Any, **__: Any) -> tuple[Tensor, Tensor, None]:
        return self._logps_BT, torch.zeros_like(self._logps_BT), None


def trl_loss(
    logps_BT: Tensor, old_BT: Tensor | None, advantages_B: Tensor, mask_BT: Tensor, settings: Config
) -> tuple[float, Tensor]:
    # where vLLM is installed, TRL imports all of it
    with mock.patch("trl.import_utils.is_vllm_available", return_value=False):
        from trl.trainer.grpo_trainer import GRPOTrainer

    leaf = logps_BT.clone().requires_grad_()
    ids = torch.ones_like(mask_BT)
    inputs = {
        "prompt_ids": ids[:, :2],
        "prompt_mask": ids[:, :2],
        "completion_ids": ids,
        "completion_mask": mask_BT,
        "advantages": advantages_B,
        "old_per_token_logps": old_BT,
        "num_items_in_batch": mask_BT.sum(),
    }
    loss = GRPOTrainer._compute_loss(_Given(leaf, settings), None, inputs)
    return loss.item(), torch.autograd.grad(loss, leaf)[0]


def our_loss(
    logps_BT: Tensor, old_BT: Tensor | None, advantages_B: Tensor, mask_BT: Tensor, settings: Config
) -> tuple[float, Tensor]:
    counted = mask_BT.any(-1).tolist()
    weights = token_weights(LENGTHS, counted, settings)
    total, slopes_BT = 0.0, torch.zeros_like(logps_BT)
    for row, (length, weight) in enumerate(zip(LENGTHS, weights, strict=True)):
        found = clipped_loss(
            logps_BT[row, :length],
            None if old_BT is None else old_BT[row, :length],
            advantages_B[row].expand(length),
            clip_low=settings.update.clip_low,
            clip_high=settings.update.clip_high,
        )
        total += weight * found.loss_N.sum().item()
        slopes_BT[row, :length] = weight * found.slope_N
    return total, slopes_BT


def given(
    seed: int, *, off_policy: bool, masked: tuple[int, ...] = ()
) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = (len(LENGTHS), TOKENS_MAX)
    logps_BT = -5 * torch.rand(shape, generator=generator, dtype=torch.float64)
    old_BT = (
        logps_BT + 0.5 * torch.randn(shape, generator=generator, dtype=torch.float64) if off_policy else None
    )
    advantages_B = torch.randn(len(LENGTHS), generator=generator, dtype=torch.float64)
    mask_BT = (torch.arange(TOKENS_MAX)[None] < torch.tensor(LENGTHS)[:, None]).long()
    mask_BT[list(masked)] = 0
    return logps_BT, old_BT, advantages_B, mask_BT


@pytest.mark.parametrize("aggregation", ["dapo", "grpo", "dr_grpo"])
@pytest.mark.parametrize("clip", [(0.2, 0.28), (0.2, 0.2), (0.05, 0.6), (1.0, 5.0)])
@pytest.mark.parametrize("off_policy", [False, True])
@pytest.mark.parametrize("masked", [(), (2,), (0, 4)])
def test_equals_trl(
    aggregation: str, clip: tuple[float, float], off_policy: bool, masked: tuple[int, ...]
) -> None:
    settings = config(aggregation=aggregation, clip_low=clip[0], clip_high=clip[1], tokens_max=TOKENS_MAX)
    case = given(7, off_policy=off_policy, masked=masked)
    theirs, ours = trl_loss(*case, settings), our_loss(*case, settings)
    assert abs(theirs[0] - ours[0]) < 1e-12
    assert (theirs[1] - ours[1]).abs().max() < 1e-12


@pytest.mark.parametrize("aggregation", ["dapo", "grpo", "dr_grpo"])
@pytest.mark.parametrize(
    "wrong", ["clip sides swapped", "another aggregation", "no old log-probs", "advantage sign"]
)
def test_a_wrong_loss_does_not_equal_trl(aggregation: str, wrong: str) -> None:
    settings = config(aggregation=aggregation, tokens_max=TOKENS_MAX)
    logps_BT, old_BT, advantages_B, mask_BT = given(3, off_policy=True)
    _, theirs = trl_loss(logps_BT, old_BT, advantages_B, mask_BT, settings)
    if wrong == "clip sides swapped":
        settings = config(aggregation=aggregation, clip_low=0.28, clip_high=0.2, tokens_max=TOKENS_MAX)
    elif wrong == "another aggregation":
        other = {"dapo": "grpo", "grpo": "dr_grpo", "dr_grpo": "dapo"}[aggregation]
        settings = config(aggregation=other, tokens_max=TOKENS_MAX)
    elif wrong == "no old log-probs":
        old_BT = None
    else:
        advantages_B = -advantages_B
    _, ours = our_loss(logps_BT, old_BT, advantages_B, mask_BT, settings)
    assert (theirs - ours).abs().max() > 1e-4
