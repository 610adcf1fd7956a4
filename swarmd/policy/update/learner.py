"""The learner: a round's token rollouts in, one optimizer step on the model's weights, and what happened out."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from swarmd.clients.update_stats import UpdateStats
from swarmd.config import Config
from swarmd.policy.memory import is_out_of_memory
from swarmd.policy.plans.ladder import Execution
from swarmd.policy.update.attention import row_length_max
from swarmd.policy.update.floor import Floors
from swarmd.policy.update.optimizers.build import build_optimizer
from swarmd.policy.update.optimizers.optimizer import Stepped
from swarmd.policy.update.packing import (
    Pack,
    PromptGroup,
    TokenRollout,
    WeighedCompletion,
    first_fit,
)
from swarmd.policy.update.passes import Trained, packed_pass, plain_pass
from swarmd.policy.update.prepass import Wanted, prepare
from swarmd.policy.update.self_check import SelfCheck, check_packed_pass
from swarmd.policy.update.stats import summarise
from swarmd.policy.update.token_losses import TokenPass
from swarmd.policy.update.weighting import weigh

NO_FLOORS = Floors()


@dataclass(frozen=True)
class _Step:
    """One optimizer step's outcome."""

    stepped: Stepped
    passes: list[TokenPass]
    num_packed: int  # tokens that the fast path forwards


class Learner:
    """Rounds to steps of one causal language model: packs, passes, and an optimizer; the model itself stays the caller's.

    Args:
        config: as the operator gave it, with `update.mismatch` resolved (`mismatch.resolve`).
        how: as the memory plan decides.

    Between calls the model is in eval mode, without gradients and with its own attention implementation, so the same
    object can generate. Dropout is never active. `before_step` is called before each optimizer step: somebody may still be
    reading weights and moments.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        config: Config,
        how: Execution,
        *,
        device: str | torch.device = "cpu",
    ) -> None:
        self.before_step: Callable[[], None] = lambda: None
        self.model: PreTrainedModel = model.to(device)
        self.config, self.how = config, how
        model.eval()
        if how.checkpointing:
            model.gradient_checkpointing_enable()
        self._optimizer = build_optimizer(model, config.update, how)
        self.masters = self._optimizer.masters
        self._check: SelfCheck | None = None

    def use(self, how: Execution) -> None:
        """Carry later updates out in another way, with the same optimizer."""
        self.how = how
        if how.checkpointing:
            self.model.gradient_checkpointing_enable()
        else:
            self.model.gradient_checkpointing_disable()

    def release(self) -> None:
        """Let go of the model; its weights stay as they are, and this learner is not used again."""
        self._optimizer.close()

    def update(self, rollouts: Sequence[TokenRollout], floors: Floors = NO_FLOORS) -> UpdateStats:
        """Train on a round, without external completions below the floors.

        A round without signal, or with a non-finite loss or gradient, leaves the weights untouched.

        All steps of a round (minibatches x epochs) refer to the log-probs from before the first. The round ends at the first step
        that is not finite, or at a later step for which memory runs out (`skipped` is then "oom"); earlier steps stay done.
        `loss` and `grad_norm` (before clipping) are means over the steps taken.
        """
        started = time.perf_counter()
        if self.config.update.minibatches * self.config.update.epochs > 1 and weigh(rollouts, self.config):
            rollouts = self._with_old_logps(rollouts)
        prepared = prepare(rollouts, self.config, floors, self.log_probs)
        batches = [weigh(batch, self.config) for batch in self._batches(prepared.rollouts)]
        if not any(batches):
            known = prepared.stats
            reason = "zero_advantage" if known.num_tokens_local + known.num_tokens_external else "no_data"
            return replace(known, skipped=reason, seconds=time.perf_counter() - started)
        steps: list[_Step] = []
        skipped = None
        for groups in filter(None, batches):
            try:
                steps.append(self._step(groups))
            except (RuntimeError, MemoryError) as error:
                if not steps or not is_out_of_memory(error):
                    raise
                skipped = "oom"
                break
            if not steps[-1].stepped.taken:
                skipped = "non_finite"
                break
        taken = [step for step in steps if step.stepped.taken]
        reported = taken or steps
        passes = [found for step in reported for found in step.passes]
        stats = summarise(prepared.stats, passes, self.config.update)
        slow = self._slow_because(groups)
        return replace(
            stats,
            loss=sum(step.stepped.loss for step in reported) / len(reported),
            grad_norm=sum(step.stepped.grad_norm for step in reported) / len(reported),
            num_steps=len(taken),
            skipped=skipped,
            fast_path=not slow,
            slow_cost=stats.num_tokens_forwarded / sum(step.num_packed for step in reported)
            if slow
            else None,
            self_check=slow or (self._check.detail if self._check else ""),
            seconds=time.perf_counter() - started,
        )

    def gradients(
        self, rollouts: Sequence[TokenRollout], floors: Floors = NO_FLOORS
    ) -> tuple[float, dict[str, Tensor]]:
        """The round's loss and its gradient by parameter name, before norm clipping, without a step."""
        self.masters.clear_gradients()
        groups = weigh(prepare(rollouts, self.config, floors, self.log_probs).rollouts, self.config)
        _, passes = self._run(groups, with_gradient=True)
        loss = torch.stack([found.loss for found in passes]).sum().item() if passes else 0.0
        gradients = self.masters.gradients()
        self.masters.clear_gradients()
        return loss, gradients

    def log_probs(
        self, rollouts: Sequence[TokenRollout], wanted: Wanted = lambda rollout, completion: True
    ) -> list[list[tuple[float, ...]]]:
        """Log-probs of completions' tokens under the weights as they are, by rollout and completion; () where not `wanted`."""
        groups, index = [], 0
        for rollout in rollouts:
            asked = []
            for completion in rollout.completions:
                if completion.ids and wanted(rollout, completion):
                    asked.append(
                        WeighedCompletion(index, replace(completion, old_logps_T=None), 0.0, rollout.external)
                    )
                index += 1
            if asked:
                groups.append(PromptGroup(rollout.prompt_ids, tuple(asked)))
        by_index: dict[int, tuple[float, ...]] = {}
        if groups:
            packs, passes = self._run(groups, with_gradient=False)
            logps = iter(torch.cat([found.logps_N for found in passes]).tolist())
            for weighed in (weighed for pack in packs for weighed in pack.completions()):
                by_index[weighed.index] = tuple(islice(logps, len(weighed.completion.ids)))
        numbers = iter(range(index))
        return [[by_index.get(next(numbers), ()) for _ in rollout.completions] for rollout in rollouts]

    def optimizer_tensors(self) -> dict[str, Tensor]:
        """The optimizer's `tensors`. They are live: write or clone them before the next update."""
        return self._optimizer.tensors()

    def load_optimizer_tensors(self, tensors: dict[str, Tensor]) -> str:
        """Go on from saved `optimizer_tensors()`; returns what could not be taken over, or an empty text.

        Raises:
            StateError: they are another model's. Nothing has been changed then.
        """
        return self._optimizer.load_tensors(tensors)

    def needs_weights(self, tensors: dict[str, Tensor]) -> bool:
        """Whether the weights saved beside `tensors` must be loaded first; otherwise the model's folder has them."""
        return self._optimizer.needs_weights(tensors)

    def weights_changed(self) -> None:
        """The caller wrote new weights into the model; the optimizer goes on from them."""
        self._optimizer.weights_changed()

    def _batches(self, rollouts: Sequence[TokenRollout]) -> list[Sequence[TokenRollout]]:
        """Rollouts of each step. Striped, so that local and external ones, which come in blocks, share every step."""
        update = self.config.update
        num = update.minibatches
        return [rollouts[start::num] for _ in range(update.epochs) for start in range(num)]

    def _with_old_logps(self, rollouts: Sequence[TokenRollout]) -> list[TokenRollout]:
        known = self.log_probs(rollouts, lambda _, completion: completion.old_logps_T is None)
        return [
            replace(
                rollout,
                completions=tuple(
                    replace(completion, old_logps_T=completion.old_logps_T or logps)
                    for completion, logps in zip(rollout.completions, known_G, strict=True)
                ),
            )
            for rollout, known_G in zip(rollouts, known, strict=True)
        ]

    def run_packs(self, packs: Sequence[Pack], *, fast: bool, with_gradient: bool) -> list[TokenPass]:
        """Each pack through the model; its gradient is added to what `masters` hold. `fast`: with shared prompts."""
        run = packed_pass if fast else plain_pass
        with _checkpointing(self.model, with_gradient and self.how.checkpointing):
            return [run(self._trained, pack, with_gradient) for pack in packs]

    def take_step(self, loss: Tensor) -> Stepped:
        """The optimizer's `step` with the gradients that `masters` hold."""
        return self._optimizer.step(loss)

    def _step(self, groups: list[PromptGroup]) -> _Step:
        self.masters.clear_gradients()
        try:
            packs, passes = self._run(groups, with_gradient=True)
            self.before_step()
            stepped = self.take_step(torch.stack([found.loss for found in passes]).sum())
        finally:
            self.masters.clear_gradients()
        return _Step(stepped, passes, sum(pack.num_tokens for pack in packs))

    def _run(self, groups: list[PromptGroup], *, with_gradient: bool) -> tuple[list[Pack], list[TokenPass]]:
        if not groups:
            return [], []
        packs, fast = self._packs(groups), not self._slow_because(groups)
        return packs, self.run_packs(packs, fast=fast, with_gradient=with_gradient)

    @property
    def _trained(self) -> Trained:
        return Trained(self.model, self.masters, self.config, self.how)

    def _packs(self, groups: list[PromptGroup]) -> list[Pack]:
        return first_fit(groups, self.how.micro_batch_tokens)

    def _slow_because(self, groups: list[PromptGroup]) -> str:
        """Why these go through the model one by one; empty where they go packed."""
        if self._check is None:
            with _checkpointing(self.model, self.how.checkpointing):
                self._check = check_packed_pass(self._trained, groups)
        longest = max(len(g.prompt_ids) + len(c.completion.ids) for g in groups for c in g.completions)
        if not self._check.passed:
            return self._check.detail
        if longest > (limit := row_length_max(self.model)):
            return f"a sequence is longer than the attention window of {limit:.0f} tokens"
        return ""


@contextmanager
def _checkpointing(model: torch.nn.Module, wanted: bool) -> Iterator[None]:
    """Train mode within the block, which transformers' checkpointing asks for, of the layers alone: what is in them stays in
    eval mode, and so without dropout, also without that which attention has among its arguments."""
    layers = [
        module for module in model.modules() if wanted and isinstance(module, GradientCheckpointingLayer)
    ]
    for layer in layers:
        layer.training = True
    try:
        yield
    finally:
        for layer in layers:
            layer.training = False
