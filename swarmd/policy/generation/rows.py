"""The rows of a batch, however they are laid out, and which layout a model can take: `choose_rows` tries the fast one."""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from swarmd.policy.fast_paths import REFUSALS, TOLERANCE
from swarmd.policy.generation.decoder import Decoder, Prefilled
from swarmd.policy.generation.padded import PaddedRows
from swarmd.policy.generation.slots import SlotRows
from swarmd.policy.memory import is_out_of_memory
from swarmd.policy.upload import upload

log = logging.getLogger(__name__)

# The check's prompts, in tokens: of different lengths, so that wrong places show.
_CHECK_TOKENS = (5, 12)


class Rows(Protocol):
    """Completions under way, one a row.

    `refills`: rows may be appended while others are there.
    """

    refills: bool

    def append(self, prefilled: Prefilled, owners: Sequence[int]) -> None:
        """Add rows after the present ones: one after prompt `owners[i]` of those prefilled, for each i."""

    def keep(self, order: Sequence[int]) -> None:
        """Row i becomes what row `order[i]` was, which is i or above; those not named are gone."""

    def forward(self, tokens_R: Tensor, positions_R: Tensor) -> Tensor:
        """Logits (rows, V) after one more token each, which has the row's next position."""


def choose_rows(decoder: Decoder) -> Callable[[int], Rows]:
    """A maker of rows for this model, given how many at most: slots, where slots give what a forward without a cache gives.

    Raises:
        MemoryError, RuntimeError: memory ran out, which is no verdict on the architecture.
    """
    try:
        difference = _slots_difference(decoder)
        reason = f"they differ by {difference:.1e}"
    except REFUSALS as refusal:
        if is_out_of_memory(refusal):
            raise
        difference, reason = float("inf"), f"{type(refusal).__name__}: {str(refusal)[:200]}"
    if difference <= TOLERANCE[decoder.model.dtype]:
        return lambda num_rows: SlotRows(decoder, num_rows)
    log.info("generation with transformers' own cache, because slots do not suit the model: %s", reason)
    return lambda num_rows: PaddedRows(decoder)


@torch.inference_mode()
def _slots_difference(decoder: Decoder) -> float:
    """Largest relative difference of next-token probabilities, over rows that stay, leave, move and join late."""
    if not decoder.takes_positions:
        return float("inf")
    num_tokens = decoder.model.config.get_text_config().vocab_size
    short, long = ([(7 * place + length) % num_tokens for place in range(length)] for length in _CHECK_TOKENS)

    def device_rows(*rows: list[int]) -> tuple[Tensor, ...]:
        return upload(rows, torch.int64, decoder.device).unbind()

    prefilled = decoder.prefill([short, long])
    rows = SlotRows(decoder, 2)
    rows.append(prefilled, [0, 1])
    rows.forward(*device_rows([1, 2], [len(short), len(long)]))
    rows.keep([1])
    rows.append(prefilled, [0])
    found = rows.forward(*device_rows([3, 4], [len(long) + 1, len(short)]))
    decoder.prepare()
    wanted = [
        decoder.model(input_ids=torch.tensor([ids], device=decoder.device)).logits[0, -1]
        for ids in ([*long, 2, 3], [*short, 4])
    ]
    one, other = found.float().softmax(-1), torch.stack(wanted).float().softmax(-1)
    return float(((one - other).norm(dim=1) / other.norm(dim=1)).max())
