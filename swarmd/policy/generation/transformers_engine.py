"""Generation with transformers, for CPU and small machines; promises that a seed alone decides what is sampled.

A prompt is forwarded once and its cache shared out to its completions; a row leaves the batch when it has finished, and waiting
work takes its place. All uniform numbers are drawn beforehand in the order prompt, completion, step, so the way the work is cut
into batches changes no sample. Nothing is truncated (no top-k, no top-p): the log-probs are those of the distribution that was
sampled from.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import torch
import transformers
from torch import Tensor
from transformers import PreTrainedModel

from swarmd.errors import OutOfMemory
from swarmd.policy.generation.batch import Batch, Completion
from swarmd.policy.generation.decoder import Decoder
from swarmd.policy.generation.drawing import place_of
from swarmd.policy.generation.engine import Sampled, Sampling
from swarmd.policy.generation.rows import Rows, choose_rows
from swarmd.policy.memory import free_memory, is_out_of_memory


class TransformersEngine:
    """Samples from any Hugging Face causal language model that takes a `DynamicCache`.

    Args:
        model: may be shared with the learner; put into eval mode and onto its own attention before each use.
        batch_tokens_max: most prompt and completion tokens in a batch, padding included; one row may exceed it.
        context_tokens_max: what prompt and completion together may not exceed.
    """

    name = "transformers"
    version = transformers.__version__
    keeps_weights = False
    own_forward = False

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        eos_ids: Iterable[int],
        pad_id: int,
        batch_tokens_max: int,
        context_tokens_max: int,
    ) -> None:
        self.batch_tokens_max = batch_tokens_max
        self._decoder = Decoder(model, pad_id)
        self._eos_ids = frozenset(eos_ids)
        self._context_tokens_max = context_tokens_max
        self._new_rows: Callable[[int], Rows] | None = None

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[list[Sampled]]:
        """See `Engine`. Where a batch does not fit in memory, batches are half as large from then on."""
        count = sampling.num_completions
        numbers = torch.Generator().manual_seed(sampling.seed)
        uniform_RT = torch.rand(
            len(prompts) * count, sampling.tokens_max, generator=numbers, dtype=torch.float64
        )
        completions = [
            Completion(row, prompt, min(sampling.tokens_max, self._context_tokens_max - len(prompt)))
            for row, prompt in enumerate(prompt for prompt in prompts for _ in range(count))
        ]
        waiting = sorted((c for c in completions if c.room > 0), key=lambda c: -c.width)
        self._decoder.prepare()
        while waiting:
            batch = Batch(
                self._decoder,
                self._make_rows,
                deque(waiting),
                uniform_RT=uniform_RT.to(place_of(self._decoder.device)),
                temperature=sampling.temperature,
                eos_ids=self._eos_ids,
                tokens_max=self.batch_tokens_max,
            )
            why = ""
            try:
                batch.run()
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                why = str(error)
            finally:
                self._decoder.prepare()
            num_rows, width = batch.num_rows_max, batch.width
            del batch  # and with it the cache, before another is made
            if why:
                self._halve(num_rows, width, why)
            waiting = [completion for completion in waiting if not completion.ended]
            for completion in waiting:
                completion.sampled = Sampled()
        found = [completion.sampled for completion in completions]
        return [found[start : start + count] for start in range(0, len(found), count)]

    def load_weights(self, weights: Path | Mapping[str, Tensor], policy_version: int) -> None:
        """Nothing to do: the module is the learner's own, and no cache outlives a call."""

    def tensors(self) -> Mapping[str, Tensor]:
        """None: the engine has no weights beside the module's."""
        return {}

    def sleep(self) -> bool:
        """Nothing to do: no cache outlives a call."""
        return False

    def _make_rows(self, num_rows: int) -> Rows:
        if self._new_rows is None:
            self._new_rows = choose_rows(self._decoder)
        return self._new_rows(num_rows)

    def _halve(self, num_rows: int, width: int, why: str) -> None:
        free_memory()
        if num_rows == 1:
            raise OutOfMemory(
                "generating a single completion does not fit in memory",
                why.partition("\n")[0],
                "lower policy.tokens_max, take a smaller model, or free memory",
            )
        self.batch_tokens_max = max(num_rows * width // 2, 1)
