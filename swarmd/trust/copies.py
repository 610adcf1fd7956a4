"""Copied texts: the same long text for the same dataset, signed by two authors. Counted, never punished.

Nobody knows who wrote a text first. The node only knows who brought it here first."""

import hashlib
from collections.abc import Iterable

from swarmd.recent import Recent

# Short answers agree by chance, also within their tags. Two models seldom write so long a text alike.
TEXT_BYTES_MIN = 64
# Texts remembered, about 250 bytes each (8 MB): those of the last thousand batches of 4 x 8 completions.
TEXTS_MAX = 32_768


class Copies:
    """The last texts and who signed them first."""

    def __init__(self, texts_max: int = TEXTS_MAX) -> None:
        self._first_author: Recent[bytes, bytes] = Recent(texts_max)

    def count(self, author: bytes, dataset: int, texts: Iterable[str]) -> int:
        """How many of these completions another author signed before; they are remembered from now on."""
        num = 0
        for text in texts:
            data = text.encode()
            if len(data) < TEXT_BYTES_MIN:
                continue
            key = hashlib.blake2b(data, digest_size=16, key=dataset.to_bytes(4, "big")).digest()
            num += self._first_author.setdefault(key, author) != author
        return num
