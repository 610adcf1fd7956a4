"""Peer ids and the keys behind them: one and the same thing for authors, who have Ed25519 keys.

A peer that only forwards may have a key of another kind. Its multihash then stands for it, so that it can be banned as well. No
author is mistaken for such a peer, since an author's key has 32 bytes.
"""

from functools import lru_cache

from swarmd.protocol.signing import BASE58, ED25519_MULTIHASH, base58
from swarmd.protocol.types import KEY_BYTES

_DIGITS = {letter: digit for digit, letter in enumerate(BASE58)}
# A multihash is 34 bytes (SHA-256) or up to 44 (identity, for keys of at most 42 bytes): at most 61 letters.
_TEXT_MAX = 61
_SHA256, _IDENTITY = b"\x12\x20", b"\x00"
_IDENTITY_BYTES_MAX = 42


def key_of(peer_id: str) -> bytes:
    """The key that stands for a peer in standings and bans.

    Raises:
        ValueError: this is no peer id as libp2p writes them (base58btc, `12D3KooW...`).
    """
    if not 0 < len(peer_id) <= _TEXT_MAX or not set(peer_id) <= _DIGITS.keys():
        raise ValueError("a peer id is 40 to 60 letters and digits, such as 12D3KooW...")
    number = 0
    for letter in peer_id:
        number = number * len(BASE58) + _DIGITS[letter]
    num_zeros = len(peer_id) - len(peer_id.lstrip("1"))
    multihash = bytes(num_zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")
    if not _is_multihash(multihash):
        raise ValueError("a letter is wrong or missing: a peer id is the hash of a key, such as 12D3KooW...")
    return key_of_multihash(multihash)


def key_of_multihash(multihash: bytes) -> bytes:
    """The key that stands for a peer, from the bytes that libp2p holds for its id."""
    is_ed25519 = (
        multihash.startswith(ED25519_MULTIHASH) and len(multihash) == len(ED25519_MULTIHASH) + KEY_BYTES
    )
    return multihash[len(ED25519_MULTIHASH) :] if is_ed25519 else multihash


def multihash_of_key(key: bytes) -> bytes:
    """The bytes that libp2p holds for the peer of this key."""
    return ED25519_MULTIHASH + key if len(key) == KEY_BYTES else key


@lru_cache(maxsize=8192)  # 20 us each, and all of a table are written down at once
def peer_id_of_key(key: bytes) -> str:
    return base58(multihash_of_key(key))


def _is_multihash(data: bytes) -> bool:
    if data.startswith(_SHA256):
        return len(data) == 34
    return data.startswith(_IDENTITY) and 2 < len(data) == 2 + data[1] <= 2 + _IDENTITY_BYTES_MAX
