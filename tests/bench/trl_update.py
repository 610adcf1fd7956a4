"""TRL 1.16's GRPO update, the reference of the benchmarks: its own loss, its own log-probs, its padding, torch's fused AdamW."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from types import MethodType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from trl.trainer import grpo_trainer
from trl.trainer import utils as trl_utils

from swarmd.policy.update.packing import TokenRollout
from tests.bench.update_work import EOS

LEARNING_RATE, GRAD_NORM_MAX = 1e-6, 1.0  # as tests/policy/settings.py has them


@dataclass(frozen=True)
class TrlOptions:
    """What a user of TRL can turn, and what only its author can.

    Attributes:
        micro_batch: `per_device_train_batch_size`; gradients are accumulated over the round.
        checkpointing, bfloat16: TRL turns both on by default, bfloat16 as autocast.
        altered: no option of TRL's. Its head scores completion tokens only, as it does on CUDA (elsewhere it scores every
            position, prompts and padding too); completions are sorted by length and each micro-batch is cut to its own longest
            (TRL shuffles them, and pads all to the round's longest prompt and longest completion).
    """

    micro_batch: int
    checkpointing: bool = False
    bfloat16: bool = False
    altered: bool = False


class TrlUpdate:
    """One GRPO update a call, on a model of its own. What the Trainer does around it is left out, which is in TRL's favour."""

    def __init__(self, model: PreTrainedModel, options: TrlOptions) -> None:
        self.model, self.options = model, options
        model.train()
        if options.checkpointing:
            model.gradient_checkpointing_enable()
        trl_utils.add_fused_lm_head(model, outputs=("log_probs", "entropy"))
        self._optimizer = torch.optim.AdamW(
            model.parameters(), lr=LEARNING_RATE, weight_decay=0.0, fused=True
        )
        self._trainer = _trainer(model, options)

    def backward(self, rollouts: Sequence[TokenRollout], *, micro_batches: int | None = None) -> None:
        """Leave the round's gradient, or that of its first few micro-batches, in the parameters."""
        with _scored_positions(self.options.altered):
            for inputs in islice(self._micro_batches(rollouts), micro_batches):
                grpo_trainer.GRPOTrainer._compute_loss(self._trainer, self.model, inputs).backward()

    def step(self) -> None:
        """Clip, AdamW, forget the gradient."""
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), GRAD_NORM_MAX)
        self._optimizer.step()
        self._optimizer.zero_grad()

    def gradients(self) -> dict[str, Tensor]:
        return {name: p.grad for name, p in self.model.named_parameters() if p.grad is not None}

    def _micro_batches(self, rollouts: Sequence[TokenRollout]) -> Iterator[dict[str, Tensor]]:
        rows = [(rollout.prompt_ids, own) for rollout in rollouts for own in rollout.completions]
        if self.options.altered:
            rows.sort(key=lambda row: len(row[0]) + len(row[1].ids))
        prompts = [torch.tensor(prompt) for prompt, _ in rows]
        completions = [torch.tensor(own.ids) for _, own in rows]
        whole = {
            "prompt_ids": trl_utils.pad(prompts, padding_value=EOS, padding_side="left"),
            "prompt_mask": trl_utils.pad([torch.ones_like(ids) for ids in prompts], 0, padding_side="left"),
            "completion_ids": trl_utils.pad(completions, padding_value=EOS),
            "completion_mask": trl_utils.pad([torch.ones_like(ids) for ids in completions], 0),
            "advantages": torch.tensor([own.advantage for _, own in rows]),
        }
        whole = {name: values.to(self.model.device) for name, values in whole.items()}
        num_items = whole["completion_mask"].sum()
        for start in range(0, len(rows), self.options.micro_batch):
            part = {name: values[start : start + self.options.micro_batch] for name, values in whole.items()}
            yield (_trim(part) if self.options.altered else part) | {"num_items_in_batch": num_items}


def _trim(part: dict[str, Tensor]) -> dict[str, Tensor]:
    num_prompt = int(part["prompt_mask"].sum(-1).max())
    num_completion = int(part["completion_mask"].sum(-1).max())
    return {
        name: values[:, -num_prompt:]
        if name.startswith("prompt")
        else (values[:, :num_completion] if values.dim() == 2 else values)
        for name, values in part.items()
    }


def _trainer(model: PreTrainedModel, options: TrlOptions) -> Any:
    """What `_compute_loss` and `_get_per_token_logps_and_entropies` read of a GRPOTrainer with the default config."""

    def autocast() -> AbstractContextManager[object]:
        return torch.autocast(model.device.type, torch.bfloat16) if options.bfloat16 else nullcontext()

    trainer = SimpleNamespace(
        aux_loss_enabled=False,
        use_vllm=False,
        _entropy_bonus_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        beta=0.0,
        importance_sampling_level="token",
        loss_type="dapo",
        epsilon_low=0.2,
        epsilon_high=0.2,
        current_gradient_accumulation_steps=1,
        args=SimpleNamespace(delta=None, steps_per_generation=1),
        model=model,
        accelerator=SimpleNamespace(
            num_processes=1,
            gather=lambda x: x,
            reduce=lambda x, reduction: x,
            sync_gradients=True,
            autocast=autocast,
        ),
        _metrics={"train": defaultdict(list)},
    )
    # `__wrapped__`: without TRL's profiling of it, which wants a whole Trainer.
    log_probs = grpo_trainer.GRPOTrainer._get_per_token_logps_and_entropies.__wrapped__
    trainer._get_per_token_logps_and_entropies = MethodType(log_probs, trainer)
    return trainer


@contextmanager
def _scored_positions(on: bool) -> Iterator[None]:
    before = trl_utils._use_triton
    if on:
        trl_utils._use_triton = lambda device: True
    try:
        yield
    finally:
        trl_utils._use_triton = before
