"""What was seen already: a bounded memory of keys, the oldest forgotten first.

The key is a hash of author and content. Content alone would let a thief, who signs somebody's batch as his own and is faster,
silence its author.
"""

import hashlib
from collections import OrderedDict

from swarmd.protocol.types import Header

# Ten minutes (the age rule) of a thousand nodes at two messages a minute is 20,000. At half, replays of old messages of a large
# swarm would be validated again; at double, a few megabytes more.
KEYS_MAX = 65_536


def duplicate_key(header: Header, header_bytes: bytes) -> bytes:
    """16 bytes that stand for one author's one batch."""
    return hashlib.sha256(header.author + header_bytes).digest()[:16]


class Seen:
    """A set of at most `keys_max` keys."""

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self._keys: OrderedDict[bytes, None] = OrderedDict()
        self._keys_max = keys_max

    def __contains__(self, key: bytes) -> bool:
        return key in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: bytes) -> None:
        """Remember a key, forgetting the oldest when full."""
        self._keys[key] = None
        self._keys.move_to_end(key)
        while len(self._keys) > self._keys_max:
            self._keys.popitem(last=False)
