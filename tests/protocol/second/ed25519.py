"""Ed25519 verification as WIRE.md, Identity: RFC 8032 without cofactor, and no `R` of small order. Slow: milliseconds a point."""

import hashlib
from functools import lru_cache

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)  # of -1

Point = tuple[int, int, int, int]
NEUTRAL: Point = (0, 1, 1, 0)


def add(one: Point, two: Point) -> Point:
    """The sum, in extended coordinates."""
    a, b = (one[1] - one[0]) * (two[1] - two[0]) % P, (one[1] + one[0]) * (two[1] + two[0]) % P
    c, d = 2 * one[3] * two[3] * D % P, 2 * one[2] * two[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(scalar: int, point: Point) -> Point:
    """The multiple."""
    result = NEUTRAL
    while scalar:
        if scalar & 1:
            result = add(result, point)
        point, scalar = add(point, point), scalar >> 1
    return result


def equal(one: Point, two: Point) -> bool:
    """Whether both are the same point."""
    return (one[0] * two[2] - two[0] * one[2]) % P == 0 and (one[1] * two[2] - two[1] * one[2]) % P == 0


def decode(data: bytes) -> Point | None:
    """The point of a canonical encoding."""
    number = int.from_bytes(data, "little")
    y, sign = number & (2**255 - 1), number >> 255
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


BASE = decode(bytes([0x58]) + bytes([0x66]) * 31)


@lru_cache
def is_sound(key: bytes) -> bool:
    """As WIRE.md, Identity."""
    point = decode(key)
    return point is not None and not equal(point, NEUTRAL) and equal(times(ORDER, point), NEUTRAL)


def verify(key: bytes, text: bytes, signature: bytes) -> bool:
    """Whether the signature over `text` is the key's."""
    assert BASE is not None
    point, commitment = decode(key), decode(signature[:32])
    scalar = int.from_bytes(signature[32:], "little")
    if point is None or commitment is None or scalar >= ORDER:
        return False
    if equal(times(8, commitment), NEUTRAL):
        return False
    challenge = int.from_bytes(hashlib.sha512(signature[:32] + key + text).digest(), "little") % ORDER
    return equal(times(scalar, BASE), add(commitment, times(challenge, point)))


def public_key(seed: bytes) -> bytes:
    """Of a 32-byte secret seed."""
    assert BASE is not None
    secret = int.from_bytes(hashlib.sha512(seed).digest()[:32], "little")
    point = times(secret & (2**254 - 8) | 2**254, BASE)
    inverse = pow(point[2], P - 2, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")
