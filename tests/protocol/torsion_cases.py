"""Messages whose signature satisfies RFC 8032's equation, with points of small order in it: where libraries of Ed25519 differ."""

import hashlib
from collections.abc import Iterator

from swarmd.protocol.signing import DOMAIN
from swarmd.protocol.wire import encode_message
from tests.protocol.case import BODY, NEUTRAL_KEY, TORSION_POINT, Case
from tests.protocol.craft import ALICE, pack, plain_header
from tests.protocol.second import ed25519
from tests.protocol.second.ed25519 import ORDER, P, Point, add, times

NONCE = 7
_torsion, _base = ed25519.decode(TORSION_POINT), ed25519.BASE
assert _torsion is not None
assert _base is not None
TORSION: Point = _torsion
BASE: Point = _base


def torsion_cases() -> Iterator[Case]:
    """The neutral point as R under a sound key, and every mixture under keys that are not."""
    for name, point in {
        "is the neutral point": NEUTRAL_KEY,
        "is the neutral point with the sign of x": NEUTRAL_KEY[:31] + b"\x80",
        "is the neutral point, y being p + 1": b"\xee" + b"\xff" * 30 + b"\x7f",
        "is the neutral point, y being p + 1, with the sign of x": b"\xee" + b"\xff" * 31,
    }.items():
        message = message_under(ALICE.public_key, secret_of(bytes(range(32))), point, 0)
        yield Case(f"signature satisfies the equation, its point {name}", "signature", message)
    secret = secret_of(bytes(range(32)))
    mixed = encoded(add(times(secret, BASE), TORSION))
    ordinary = times(NONCE, BASE)
    for name, key, own, point, nonce in (
        ("of order 8, an ordinary point", TORSION_POINT, 0, ordinary, NONCE),
        ("the neutral point, an ordinary point", NEUTRAL_KEY, 0, ordinary, NONCE),
        ("with a part of order 8, a point of order 8", mixed, secret, TORSION, 0),
        ("with a part of order 8, the neutral point", mixed, secret, ed25519.NEUTRAL, 0),
        ("with a part of order 8, an ordinary point", mixed, secret, ordinary, NONCE),
        ("with a part of order 8, a point with such a part", mixed, secret, add(ordinary, TORSION), NONCE),
    ):
        message = message_under(key, own, encoded(point), nonce)
        yield Case(f"the equation holds: a key {name}", "author_key", message)


def message_under(key: bytes, secret: int, point: bytes, nonce: int) -> bytes:
    """A good message but for its key and its signature, which satisfies the equation.

    Args:
        secret: of the key's part in the prime-order group, as `nonce` is of the point's.
    """
    decoded_key, commitment = ed25519.decode(key), decoded(point)
    assert decoded_key is not None
    for policy_version in range(100):  # one challenge in eight makes the parts of small order cancel out
        header = pack(plain_header(BODY, author=key, policy_version=policy_version))
        text = DOMAIN + key + header
        challenge = int.from_bytes(hashlib.sha512(point + key + text).digest(), "little") % ORDER
        scalar = (nonce + challenge * secret) % ORDER
        if ed25519.equal(times(scalar, BASE), add(commitment, times(challenge, decoded_key))):
            return encode_message(header, point + scalar.to_bytes(32, "little"), BODY)
    raise AssertionError("no header whose challenge fits")


def decoded(point: bytes) -> Point:
    """Also of the neutral point's encodings that are not canonical."""
    number = int.from_bytes(point, "little") % 2**255
    found = ed25519.NEUTRAL if number % P == 1 else ed25519.decode(point)
    assert found is not None
    return found


def secret_of(seed: bytes) -> int:
    """The scalar that RFC 8032 makes of a seed."""
    return int.from_bytes(hashlib.sha512(seed).digest()[:32], "little") & (2**254 - 8) | 2**254


def encoded(point: Point) -> bytes:
    """The canonical encoding."""
    inverse = pow(point[2], P - 2, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")
