"""WIRE.md, Questions: the known seeds, the one form of JSON, and the digest over both."""

import hashlib
import json
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
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return '"' + "".join(map(_char, value)) + '"'
    if isinstance(value, list):
        return "[" + ", ".join(map(form, value)) + "]"
    return "{" + ", ".join(f"{form(key)}: {form(value[key])}" for key in sorted(value)) + "}"


def _char(char: str) -> str:
    if char in SHORT:
        return SHORT[char]
    if " " <= char <= "\x7f":
        return char
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
