"""Rows in transformers' own growing cache, aligned on the right: for every architecture that takes a `DynamicCache`."""

from collections.abc import Sequence

import torch
from torch import Tensor

from swarmd.policy.generation.decoder import Decoder, Prefilled
from swarmd.policy.upload import upload

# Finished rows are dropped when they are one in so many. Dropping copies the others' cache: at 1 in 100 every finish copies it,
# at 1 in 2 half a batch is computed in vain for a while. 1 in 4 and 1 in 16 differ by a few per cent.
_COMPACT_ONE_IN = 8


class PaddedRows:
    """See `rows.Rows`. All rows are as wide as the longest, so none joins a batch under way. `append` takes over the cache."""

    refills = False

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        # The row of the cache that each row is.
        self._places: list[int] = []

    def append(self, prefilled: Prefilled, owners: Sequence[int]) -> None:
        assert not self._places, "rows cannot join a batch under way"
        self._cache, self._mask = prefilled.cache, prefilled.mask
        self._compact(owners)

    def keep(self, order: Sequence[int]) -> None:
        self._places = [self._places[row] for row in order]
        if len(self._mask) - len(order) >= max(1, len(self._mask) // _COMPACT_ONE_IN):
            self._compact(self._places)
        else:
            self._places_R = self._index(self._places)

    def _compact(self, rows: Sequence[int]) -> None:
        """The cache and the mask become these rows of theirs."""
        index = self._index(rows)
        self._cache.batch_select_indices(index)
        self._mask = self._mask[index]
        self._places = list(range(len(rows)))
        self._places_R = torch.arange(len(rows), device=index.device)

    def _index(self, rows: Sequence[int]) -> Tensor:
        return upload(list(rows), torch.int64, self._decoder.device)

    def forward(self, tokens_R: Tensor, positions_R: Tensor) -> Tensor:
        ids = torch.full((len(self._mask), 1), self._decoder.pad_id, device=self._decoder.device)
        ids[self._places_R, 0] = tokens_R
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(self._mask), 1)], dim=1)
        return self._decoder.forward(ids, self._mask, self._cache)[self._places_R]
