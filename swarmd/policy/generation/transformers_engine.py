"""Generation with transformers, for CPU and small machines; promises that a seed alone decides what is sampled.

A prompt is forwarded once and its cache shared out to its completions; a row leaves the batch when it has finished. All uniform
numbers are drawn beforehand in the order prompt, completion, step, so the way the work is cut into batches changes no sample.
Nothing is truncated (no top-k, no top-p): the log-probs are those of the distribution that was sampled from.
"""

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import DynamicCache

from swarmd.errors import OutOfMemory
from swarmd.policy.generation.drawing import draw
from swarmd.policy.generation.engine import Sampled, Sampling
from swarmd.policy.memory import free_memory, is_out_of_memory

# Finished rows are dropped when they are one in so many. Dropping copies the others' cache: at 1 in 100 every finish copies it,
# at 1 in 2 half a batch is computed in vain for a while. 1 in 4 and 1 in 16 differ by a few per cent.
_COMPACT_ONE_IN = 8


class TransformersEngine:
    """Samples from any Hugging Face causal language model that takes a `DynamicCache`.

    Args:
        model: may be shared with the learner; put into eval mode and onto its own attention before each use.
        eos_ids: ids that end a completion.
        pad_id: fills prompts up on the left; never attended to.
        batch_tokens_max: most prompt and completion tokens in a batch, padding included; one row may exceed it.
        context_tokens_max: what prompt and completion together may not exceed.
    """

    name = "transformers"
    version = transformers.__version__
    keeps_weights = False

    def __init__(
        self,
        model: Any,
        *,
        eos_ids: Iterable[int],
        pad_id: int,
        batch_tokens_max: int,
        context_tokens_max: int,
    ) -> None:
        self.batch_tokens_max = batch_tokens_max
        self._model = model
        self._device = next(model.parameters()).device
        self._eos_ids = torch.tensor(sorted(eos_ids), device=self._device)
        self._pad_id = pad_id
        self._context_tokens_max = context_tokens_max
        self._attention = model.config._attn_implementation
        takes = inspect.signature(model.forward).parameters
        self._takes_positions = "position_ids" in takes
        self._last_only = {"logits_to_keep": 1} if "logits_to_keep" in takes else {}

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[list[Sampled]]:
        """`num_completions` for each prompt, in order. A prompt that fills the context gets empty, unfinished completions.

        Raises:
            OutOfMemory: not even one row at a time fits; until then batches are halved, and stay so.
        """
        count = sampling.num_completions
        found = [Sampled() for _ in range(len(prompts) * count)]
        numbers = torch.Generator().manual_seed(sampling.seed)
        uniform_RT = torch.rand(len(found), sampling.tokens_max, generator=numbers, dtype=torch.float64)
        self._model.eval()
        if self._model.config._attn_implementation != self._attention:
            self._model.set_attn_implementation(self._attention)
        pending = list(self._batches(prompts, sampling))[::-1]
        while pending:
            rows = pending.pop()
            try:
                part = self._sample([prompts[row // count] for row in rows], uniform_RT[rows], sampling)
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                pending += self._halve(rows, str(error))
            else:
                for row, sampled in zip(rows, part, strict=True):
                    found[row] = sampled
        return [found[start : start + count] for start in range(0, len(found), count)]

    def load_weights(self, weights: Path | Mapping[str, Tensor], policy_version: int) -> None:
        """Nothing to do: the module is the learner's own, and no cache outlives a batch."""

    def sleep(self) -> bool:
        """Nothing to do: no cache outlives a batch."""
        return False

    def close(self) -> None:
        """Nothing to do: the module is the caller's."""

    def _batches(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> Iterator[list[int]]:
        """Row numbers, prompts of like length together, in batches whose padded size stays under the limit."""
        batch: list[int] = []
        for index in sorted(range(len(prompts)), key=lambda i: len(prompts[i])):
            width = len(prompts[index]) + sampling.tokens_max
            if len(prompts[index]) >= self._context_tokens_max:
                continue
            for row in range(index * sampling.num_completions, (index + 1) * sampling.num_completions):
                if batch and (len(batch) + 1) * width > self.batch_tokens_max:
                    yield batch
                    batch = []
                batch.append(row)
        if batch:
            yield batch

    def _halve(self, rows: list[int], why: str) -> list[list[int]]:
        free_memory()
        if len(rows) == 1:
            raise OutOfMemory(
                "generating a single completion does not fit in memory",
                why.partition("\n")[0],
                "lower policy.tokens_max, take a smaller model, or free memory",
            )
        self.batch_tokens_max = max(self.batch_tokens_max // 2, 1)
        middle = len(rows) // 2
        return [rows[middle:], rows[:middle]]

    @torch.inference_mode()
    def _sample(
        self, prompts: Sequence[Sequence[int]], uniform_RT: Tensor, sampling: Sampling
    ) -> list[Sampled]:
        """One batch: a completion for each of R prompts. Equal neighbours are forwarded once."""
        uniform_RT = uniform_RT.to(self._device)
        width = max(map(len, prompts))
        room_R = [min(sampling.tokens_max, self._context_tokens_max - len(prompt)) for prompt in prompts]
        last_R = torch.tensor(room_R, device=self._device) - 1
        tokens_RT = torch.full((len(prompts), max(room_R)), -1, device=self._device)
        logps_RT = torch.zeros(tokens_RT.shape, dtype=torch.float64, device=self._device)
        cache = DynamicCache(config=self._model.config)
        logits, mask = self._prefill(prompts, width, cache)
        slots = torch.arange(
            len(prompts), device=self._device
        )  # the row of the batch that each row of the cache is
        alive = torch.ones_like(slots, dtype=torch.bool)
        for step in range(max(room_R)):
            tokens, logps = draw(logits, uniform_RT[slots, step], sampling.temperature)
            tokens_RT[slots, step] = torch.where(alive, tokens, -1)
            logps_RT[slots, step] = torch.where(alive, logps.double(), 0.0)
            alive &= ~torch.isin(tokens, self._eos_ids) & (step < last_R[slots])
            num_alive = int(alive.sum())
            if num_alive == 0:
                break
            if len(slots) - num_alive >= max(1, len(slots) // _COMPACT_ONE_IN):
                keep = alive.nonzero().squeeze(1)
                cache.batch_select_indices(keep)
                slots, alive, tokens, mask = slots[keep], alive[keep], tokens[keep], mask[keep]
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
            logits = self._forward(tokens[:, None], mask, cache)
        return self._collect(tokens_RT, logps_RT)

    def _prefill(
        self, prompts: Sequence[Sequence[int]], width: int, cache: DynamicCache
    ) -> tuple[Tensor, Tensor]:
        """Logits (R, V) after each prompt and the mask (R, width); fills the cache with R rows."""
        distinct: list[Sequence[int]] = []
        owner_R = []
        for prompt in prompts:
            if not distinct or prompt is not distinct[-1]:
                distinct.append(prompt)
            owner_R.append(len(distinct) - 1)
        ids = torch.full((len(distinct), width), self._pad_id)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(distinct):
            ids[row, width - len(prompt) :] = torch.tensor(prompt)
            mask[row, width - len(prompt) :] = 1
        mask = mask.to(self._device)
        logits = self._forward(ids.to(self._device), mask, cache)
        index = torch.tensor(owner_R, device=self._device)
        cache.batch_select_indices(index)
        return logits[index], mask[index]

    def _forward(self, ids_RT: Tensor, mask: Tensor, cache: DynamicCache) -> Tensor:
        """Logits (R, V) at the last position; appends T positions to the cache. The mask covers cache and ids."""
        arguments: dict[str, Any] = dict(self._last_only)
        if self._takes_positions:
            arguments["position_ids"] = (mask.cumsum(1) - 1).clamp_(min=0)[:, -ids_RT.shape[1] :]
        output = self._model(
            input_ids=ids_RT, attention_mask=mask, past_key_values=cache, use_cache=True, **arguments
        )
        logits: Tensor = output.logits[:, -1]
        return logits

    def _collect(self, tokens_RT: Tensor, logps_RT: Tensor) -> list[Sampled]:
        eos_ids = set(self._eos_ids.tolist())
        sampled = []
        for ids, logps in zip(tokens_RT.tolist(), logps_RT.tolist(), strict=True):
            ids = ids[: ids.index(-1)] if -1 in ids else ids
            sampled.append(Sampled(ids, logps[: len(ids)], ids[-1] in eos_ids))
        return sampled
