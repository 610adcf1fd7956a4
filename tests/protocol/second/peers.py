"""PEERS.md: one frame, read."""

import ipaddress
import re
from typing import Any

from tests.protocol.second.formats import Bad, Msgpack, Reader

DIGITS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

LABEL = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"


class Small(Msgpack):
    """msgpack with the bounds of a frame."""

    ENTRIES_MAX, ELEMENTS_MAX, BYTES_MAX = 8, 256, 16_384


def read(frame: bytes) -> tuple[list[str], str]:
    """The addresses that can be used, and the agent. Raises Bad."""
    reader = Reader(frame)
    size = reader.number(2)
    if size > 16_384:
        raise Bad("too long")
    content: dict[str, Any] = Small(reader.take(size), 10_000).whole()
    entries, agent = content.get("addresses"), content.get("agent")
    if type(entries) is not list:
        raise Bad("no addresses")
    shown = agent[:64] if type(agent) is str else ""
    usable = [entry for entry in entries[:32] if is_usable(entry)]
    return usable, "".join(c if " " <= c <= "~" else "?" for c in shown)


def is_usable(entry: Any) -> bool:
    """Whether it is an address as nodes dial them."""
    if type(entry) is not str or not entry.isascii() or len(entry) > 350:
        return False
    match = re.fullmatch(r"/(ip4|ip6|dns|dns4|dns6)/([^/]+)/tcp/(\d{1,5})/p2p/([^/]+)", entry)
    if match is None or int(match[3]) > 65_535 or not is_peer_id(match[4]):
        return False
    if match[1].startswith("dns"):
        return len(match[2].rstrip(".")) <= 253 and bool(re.fullmatch(rf"{LABEL}(\.{LABEL})*\.?", match[2]))
    try:
        return ipaddress.ip_address(match[2]).version == int(match[1][2])
    except ValueError:
        return False


def is_peer_id(text: str) -> bool:
    """Of an Ed25519 key, as WIRE.md, Identity."""
    number = 0
    for char in text:
        if char not in DIGITS:
            return False
        number = number * 58 + DIGITS.index(char)
    data = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return text[0] == "1" and len(data) == 37 and data[:5] == bytes.fromhex("2408011220")


def peer_id(key: bytes) -> str:
    """Of an Ed25519 key."""
    number, text = int.from_bytes(bytes.fromhex("002408011220") + key, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = DIGITS[digit] + text
    return "1" + text
