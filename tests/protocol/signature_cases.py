"""Messages whose signature was made up, borrowed, or made over something else; and whom that does not harm."""

import hashlib
from collections.abc import Iterator

from nacl.bindings import crypto_core_ed25519_add

from swarmd.protocol.signing import DOMAIN, Identity
from swarmd.protocol.wire import encode_message
from tests.protocol.case import BODY, GOOD, NEUTRAL_KEY, TORSION_POINT, Case, header_with
from tests.protocol.craft import (
    ALICE,
    MALLORY,
    NOW_MS,
    block,
    pack,
    plain_batch,
    plain_header,
    signed,
    stored_frame,
)
from tests.protocol.second import ed25519
from tests.protocol.torsion_cases import encoded, secret_of

ORDER = ed25519.ORDER
# One key in two has the highest bit of its last byte set (the sign of x); neither Alice's nor Mallory's has.
ODD = next(i for i in (Identity.from_seed(bytes([n]) * 32) for n in range(256)) if i.public_key[31] & 0x80)


def signature_cases() -> Iterator[Case]:
    """Every way to sign without the author."""
    header = pack(plain_header(BODY))
    own = ALICE.sign(header)
    scalar = int.from_bytes(own[32:], "little")
    for name, signature in {
        "is all zero": bytes(64),
        "has one bit changed in its point": bytes([own[0] ^ 1]) + own[1:],
        "has one bit changed in its scalar": own[:32] + bytes([own[32] ^ 1]) + own[33:],
        "has a scalar that is not reduced": own[:32] + (scalar + ORDER).to_bytes(32, "little"),
        "has the negated scalar": own[:32] + (ORDER - scalar).to_bytes(32, "little"),
        "is over another header of the author": ALICE.sign(pack(plain_header(BODY, policy_version=4))),
        "is over the header without its prefix": _sign(header),
        "is over the header without the author": _sign(DOMAIN + header),
        "is over the prefix of another version": _sign(b"swarmd/2/header\0" + ALICE.public_key + header),
        "is over the whole message": _sign(GOOD),
        "is over another's key": _sign(DOMAIN + MALLORY.public_key + header),
        "is another's over the header": MALLORY.sign(header),
        "is another's in the author's name": _sign(DOMAIN + ALICE.public_key + header, MALLORY),
        "holds only with the cofactor": _with_torsion(header),
        "has a point of small order": TORSION_POINT + own[32:],
    }.items():
        yield Case(f"signature {name}", "signature", encode_message(header, signature, BODY))
    stolen = GOOD.replace(ALICE.public_key, MALLORY.public_key)
    yield Case("the author's name replaced, the signature kept", "signature", stolen)
    yield Case("a header changed in one bit", "signature", GOOD.replace(b"tiny", b"tinx"))
    yield Case("another author", "accepted", _by(MALLORY), keeps="signature")
    yield Case("an author whose key has its highest bit set", "accepted", _by(ODD), keeps="author_key")


def key_cases() -> Iterator[Case]:
    """Keys under which signatures prove nothing."""
    for name, key in {
        "the neutral point": NEUTRAL_KEY,
        "zero, a point of order 4": bytes(32),
        "a point of order 8": TORSION_POINT,
        "no point": bytes([2]) + bytes(31),
        "outside the prime-order group": crypto_core_ed25519_add(ALICE.public_key, TORSION_POINT),
        "the neutral point, not canonical": b"\xee" + b"\xff" * 30 + b"\x7f",
        "the neutral point with the sign of x": NEUTRAL_KEY[:31] + b"\x80",
        "a point with a part of small order, y being p + 3": b"\xf0" + b"\xff" * 30 + b"\x7f",
        "all ones": b"\xff" * 32,
    }.items():
        yield Case(f"key is {name}", "author_key", header_with(author=key))


def replay_cases() -> Iterator[Case]:
    """What came before, in part or whole."""
    stolen = signed(plain_header(BODY, MALLORY), BODY, MALLORY)
    corrupt_body = GOOD[:-1] + bytes([GOOD[-1] ^ 1])
    corrupt_signature = GOOD[:3] + bytes([GOOD[3] ^ 1]) + GOOD[4:]
    no_batch = signed(plain_header(stored_frame(b"\xc1")), stored_frame(b"\xc1"))
    other_frame = stored_frame(b"", declared=len(pack(plain_batch())), blocks=_in_two())
    yield Case("a replay", "duplicate", GOOD, [GOOD])
    yield Case("a replay with another signature", "duplicate", corrupt_signature, [GOOD])
    yield Case("a replay with another body", "duplicate", corrupt_body, [GOOD])
    yield Case("a replay of what was refused behind its signature", "duplicate", no_batch, [no_batch])
    yield Case(
        "a replay of what was refused at its signature", "signature", corrupt_signature, [corrupt_signature]
    )
    for name, before in {
        "a thief signed the same body": stolen,
        "a forger sent the header with another body": corrupt_body,
        "a forger sent the header with another signature": corrupt_signature,
    }.items():
        yield Case(f"the author after {name}", "accepted", GOOD, [before], keeps="duplicate")
    yield Case("a thief signs another's body", "accepted", stolen, [GOOD], keeps="duplicate")
    again = signed(plain_header(BODY, created_ms=NOW_MS), BODY)
    yield Case("the author says it again, later", "accepted", again, [GOOD], keeps="duplicate")
    yield Case(
        "the author says it in another frame", "accepted", _over(other_frame), [GOOD], keeps="body_digest"
    )
    yield Case("one bit of the body", "body_digest", corrupt_body)
    yield Case("the body in another frame than was signed", "body_digest", _swapped())


def _by(author: Identity) -> bytes:
    return signed(plain_header(BODY, author), BODY, author)


def _over(body: bytes) -> bytes:
    return signed(plain_header(body), body)


def _in_two() -> bytes:
    content = pack(plain_batch())
    return block(0, 100, content[:100], last=False) + block(0, len(content) - 100, content[100:])


def _swapped() -> bytes:
    """A body of the same size and content that is not the one that was signed: the frame names dictionary 0 in place of nothing."""
    content = pack(plain_batch())
    plain = b"\x28\xb5\x2f\xfd\xa0" + len(content).to_bytes(4, "little") + BODY[9:]
    other = b"\x28\xb5\x2f\xfd\x62\x00\x00" + (len(content) - 256).to_bytes(2, "little") + BODY[9:]
    assert len(plain) == len(other) == len(BODY)
    return signed(plain_header(BODY), other)


def _sign(text: bytes, identity: Identity = ALICE) -> bytes:
    return identity._key.sign(text).signature


def _with_torsion(header: bytes) -> bytes:
    """R + T in place of R, T of order 8: eight times the equation holds, the equation does not (test_signing has both)."""
    scalar, nonce = secret_of(bytes(range(32))), 7
    assert ed25519.BASE is not None
    point = crypto_core_ed25519_add(encoded(ed25519.times(nonce, ed25519.BASE)), TORSION_POINT)
    text = DOMAIN + ALICE.public_key + header
    challenge = int.from_bytes(hashlib.sha512(point + ALICE.public_key + text).digest(), "little") % ORDER
    return point + ((nonce + challenge * scalar) % ORDER).to_bytes(32, "little")
