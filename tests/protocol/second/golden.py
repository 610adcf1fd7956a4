"""WIRE.md, Questions: the known seeds, the one form of JSON, and the digest over both."""

import hashlib
import json
import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

SEEDS = (0, 1, 2**31 - 1, *(k * 2654435761 % 2**31 for k in range(1, 30)))
SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def digest(lines: list[str]) -> str:
    """Of the known questions' JSON."""
    document = b"swarmd/1/golden\0" + b"".join(line.encode("ascii") + b"\n" for line in lines)
    return hashlib.sha256(document).hexdigest()


def said_again(line: str) -> str:
    """A line's value in the one form, written without a JSON library's help."""
    return form(json.loads(line))


def form(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", False: "false", True: "true"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, str):
        return '"' + "".join(map(_char, value)) + '"'
    if isinstance(value, list):
        return "[" + ", ".join(map(form, value)) + "]"
    return "{" + ", ".join(f"{form(key)}: {form(value[key])}" for key in sorted(value)) + "}"


def _char(char: str) -> str:
    if char in SHORT:
        return SHORT[char]
    if " " <= char <= "~":
        return char
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def _float(value: float) -> str:
    """Without the help of `repr`: digits and place first, then where the point goes."""
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return sign + "0.0"
    digits, place = _shortest(abs(value))
    if -4 <= place <= 15:
        whole = digits[: max(place + 1, 0)].ljust(place + 1, "0") or "0"
        return f"{sign}{whole}.{'0' * (-place - 1) + digits[max(place + 1, 0) :] or '0'}"
    rest = f".{digits[1:]}" if digits[1:] else ""
    return f"{sign}{digits[0]}{rest}e{'-' if place < 0 else '+'}{abs(place):02}"


def _shortest(value: float) -> tuple[str, int]:
    """The fewest digits that read back as a float above 0, and the power of ten of the first."""
    exact = Decimal(value)
    for num in range(1, 18):
        both = [Context(num, rounding).plus(exact) for rounding in (ROUND_FLOOR, ROUND_CEILING)]
        fitting = [one for one in both if float(one) == value]
        if fitting:
            nearest = min(
                fitting, key=lambda one: (abs(Fraction(one) - Fraction(exact)), one.as_tuple().digits[-1] % 2)
            )
            return "".join(map(str, nearest.as_tuple().digits)).rstrip("0"), nearest.adjusted()
    raise AssertionError("17 digits are enough for every float")
