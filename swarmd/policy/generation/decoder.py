"""A causal language model's forward passes as sampling needs them: logits of the last position only, own attention by default."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import Cache, DynamicCache, PreTrainedModel

from swarmd.policy.upload import upload


@dataclass(frozen=True)
class Prefilled:
    """P prompts, padded on the left: their cache, its mask (P, width), and the logits (P, V) after the last token of each."""

    lengths: tuple[int, ...]
    mask: Tensor
    cache: DynamicCache
    logits_PV: Tensor


class Decoder:
    """A model, possibly shared with the learner, between two changes of its weights. `pad_id` fills prompts up on the left."""

    def __init__(self, model: PreTrainedModel, pad_id: int) -> None:
        self.model = model
        self.pad_id = pad_id
        self.device = next(model.parameters()).device
        self.attention: str = model.config._attn_implementation
        takes = inspect.signature(model.forward).parameters
        self.takes_positions = "position_ids" in takes
        self._last_only = {"logits_to_keep": 1} if "logits_to_keep" in takes else {}

    def prepare(self) -> None:
        """Undo what another user of the module, or this one, has set."""
        self.model.eval()
        self.use_attention(self.attention)

    def use_attention(self, name: str) -> None:
        """Switch to an attention implementation that transformers knows by `name`."""
        if self.model.config._attn_implementation != name:
            self.model.set_attn_implementation(name)

    def prefill(self, prompts: Sequence[Sequence[int]]) -> Prefilled:
        """Forward P prompts once."""
        lengths = tuple(map(len, prompts))
        width = max(lengths)
        ids = [[self.pad_id] * (width - len(prompt)) + [*prompt] for prompt in prompts]
        mask = [[0] * (width - length) + [1] * length for length in lengths]
        ids_PT, mask_PT = torch.split(upload([*ids, *mask], torch.int64, self.device), len(prompts))
        cache = DynamicCache(config=self.model.config)
        return Prefilled(lengths, mask_PT, cache, self.forward(ids_PT, mask_PT, cache))

    def forward(self, ids_RT: Tensor, mask: Tensor, cache: DynamicCache) -> Tensor:
        """Logits (R, V) at the last position; appends T positions to the cache. The mask covers cache and ids."""
        self.use_attention(self.attention)
        arguments = {"attention_mask": mask}
        if self.takes_positions:
            arguments["position_ids"] = (mask.cumsum(1) - 1).clamp_(min=0)[:, -ids_RT.shape[1] :]
        return self.call(ids_RT, cache, **arguments)

    def call(self, ids_RT: Tensor, cache: Cache, **arguments: object) -> Tensor:
        """Logits (R, V) at the last position, with whatever else the model is to be given."""
        output = self.model(
            input_ids=ids_RT, past_key_values=cache, use_cache=True, **self._last_only, **arguments
        )
        logits: Tensor = output.logits[:, -1]
        return logits
