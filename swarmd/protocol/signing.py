"""Identities: an Ed25519 key that is also the libp2p peer id, and the signature over a header.

The signature covers a domain prefix, the author and the header; the header holds the body's size and digest. So it covers the batch
whether or not the body is at hand, and cannot be taken for a signature of anything else.
"""

import hashlib
from typing import Self

from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from swarmd.protocol.types import VERSION, Header, RolloutBatch
from swarmd.protocol.wire import encode_body, encode_header, encode_message

DOMAIN = b"swarmd rollout batch 1\x00"
# libp2p: an Ed25519 key's peer id is the identity multihash (00 24) of its protobuf (08 01 12 20 key), in base58.
_PEER_ID_PREFIX = bytes.fromhex("002408011220")
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


class Identity:
    """A node's key pair."""

    def __init__(self, key: SigningKey) -> None:
        self._key = key
        self.public_key = bytes(key.verify_key)
        self.peer_id = peer_id_of(self.public_key)

    @classmethod
    def from_seed(cls, seed: bytes) -> Self:
        """From 32 secret bytes. Raises ValueError for another length."""
        if len(seed) != 32:
            raise ValueError(f"an Ed25519 seed has 32 bytes, not {len(seed)}")
        return cls(SigningKey(seed))

    def sign(self, header_bytes: bytes) -> bytes:
        """64 bytes over domain, author and header."""
        return self._key.sign(DOMAIN + self.public_key + header_bytes).signature

    def seal(self, batch: RolloutBatch, *, created_ms: int, policy: str, policy_version: int) -> bytes:
        """A message with the body inline, ready for the topic."""
        body = encode_body(batch)
        counters = [rollout.counter for rollout in batch.rollouts]
        header = Header(
            version=VERSION,
            author=self.public_key,
            created_ms=created_ms,
            counter_first=min(counters),
            counter_last=max(counters),
            policy=policy,
            policy_version=policy_version,
            body_size=len(body),
            body_sha256=hashlib.sha256(body).digest(),
        )
        header_bytes = encode_header(header)
        return encode_message(header_bytes, self.sign(header_bytes), body)


def verify(public_key: bytes, header_bytes: bytes, signature: bytes) -> bool:
    """Whether the author signed this header."""
    try:
        VerifyKey(public_key).verify(DOMAIN + public_key + header_bytes, signature)
    except (BadSignatureError, ValueError):
        return False
    return True


def peer_id_of(public_key: bytes) -> str:
    """The libp2p peer id of a public key, as people see it."""
    number = int.from_bytes(_PEER_ID_PREFIX + public_key, "big")
    digits = ""
    while number:
        number, rest = divmod(number, 58)
        digits = _BASE58[rest] + digits
    return "1" + digits  # one leading zero byte
