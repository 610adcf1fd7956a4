"""A node's identity: Ed25519 key, libp2p peer id, and the signature over a header.

Signed bytes = DOMAIN, then the author's key, then the header as sent. The domain keeps these signatures apart from every
other use of the key (libp2p signs with it too); the key is bound twice, since the header names it as well.
"""

import hashlib
from functools import lru_cache

from nacl.bindings import crypto_core_ed25519_is_valid_point
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from swarmd.protocol.types import (
    DIGEST_BYTES,
    KEY_BYTES,
    POLICY_NAME_MAX,
    PROTOCOL_VERSION,
    SIGNATURE_BYTES,
    Header,
    RolloutBatch,
)
from swarmd.protocol.wire import encode_body, encode_header, encode_message

DOMAIN = b"swarmd/1/header\x00"
# libp2p: the identity multihash (0x00, length 36) of a protobuf public key (type 1 = Ed25519, 32 bytes).
ED25519_MULTIHASH = bytes.fromhex("002408011220")
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


class Identity:
    """A secret key. Its repr shows the peer id only."""

    def __init__(self, key: SigningKey) -> None:
        self._key = key
        self.public_key = bytes(key.verify_key)
        self.peer_id = peer_id_of(self.public_key)

    @classmethod
    def from_seed(cls, seed: bytes) -> "Identity":
        """The identity of a 32-byte secret seed, the same one libp2p derives from it."""
        if len(seed) != KEY_BYTES:
            raise ValueError(f"an identity seed has {KEY_BYTES} bytes, not {len(seed)}")
        return cls(SigningKey(seed))

    def __repr__(self) -> str:
        return f"Identity({self.peer_id})"

    def sign(self, header_bytes: bytes) -> bytes:
        """The 64-byte signature over a header of our own."""
        return self._key.sign(DOMAIN + self.public_key + header_bytes).signature

    def seal(
        self, batch: RolloutBatch, *, created_ms: int, policy: str, policy_version: int, swarm: bytes = b""
    ) -> bytes:
        """Encode, describe and sign a batch: the message for the topic, body inline.

        Args:
            batch: at least one rollout; `wire.split` makes batches that are small enough.
            created_ms: Unix time of the generation, milliseconds.
            policy: name of the model, for information; cut to 64 printable ASCII characters.
            policy_version: updates applied when the completions were generated.
            swarm: the manifest's digest, which keeps the batch from being replayed in another swarm.
        """
        if not batch.rollouts:
            raise ValueError("a batch has at least one rollout")
        counters = [rollout.counter for rollout in batch.rollouts]
        body = encode_body(batch)
        header = Header(
            version=PROTOCOL_VERSION,
            author=self.public_key,
            created_ms=created_ms,
            counter_first=min(counters),
            counter_last=max(counters),
            policy="".join(c if " " <= c <= "~" else "?" for c in policy[:POLICY_NAME_MAX]),
            policy_version=policy_version,
            body_size=len(body),
            body_sha256=hashlib.sha256(body).digest(),
            swarm=swarm,
        )
        header_bytes = encode_header(header)
        return encode_message(header_bytes, self.sign(header_bytes), body)


def peer_id_of(public_key: bytes) -> str:
    """The libp2p peer id (base58btc, `12D3KooW...`) of an Ed25519 public key.

    Source: libp2p specs, peer-ids/peer-ids.md.
    """
    if len(public_key) != KEY_BYTES:
        raise ValueError(f"a public key has {KEY_BYTES} bytes, not {len(public_key)}")
    return base58(ED25519_MULTIHASH + public_key)


def base58(data: bytes) -> str:
    """Base58btc, as libp2p writes peer ids: the bytes as one number, and a 1 for each leading zero byte."""
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, len(BASE58))
        text = BASE58[digit] + text
    return "1" * (len(data) - len(data.lstrip(b"\x00"))) + text


@lru_cache(maxsize=4096)  # 60 us a check, one check an author
def is_sound_key(public_key: bytes) -> bool:
    """Whether the key is the canonical encoding of a point of the prime-order group other than the neutral one.

    Under a key of small order some signatures verify for any text, and implementations of Ed25519 differ on such signatures.
    """
    return len(public_key) == KEY_BYTES and crypto_core_ed25519_is_valid_point(public_key)


def verify(public_key: bytes, header_bytes: bytes, signature: bytes) -> bool:
    if len(public_key) != KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    try:
        VerifyKey(public_key).verify(DOMAIN + public_key + header_bytes, signature)
    except BadSignatureError:
        return False
    return True


def duplicate_key(author: bytes, header_bytes: bytes) -> bytes:
    """What `seen` remembers: hash of the author and, through the header's body digest, the content.

    The author is part of the key, so a thief who signs another's body cannot make the author's own message look like a repeat. The
    signature is not part of it, so one content cannot come twice with two signatures.
    """
    return hashlib.sha256(b"swarmd/1/duplicate\x00" + author + header_bytes).digest()[:DIGEST_BYTES]
