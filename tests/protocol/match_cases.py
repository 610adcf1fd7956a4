"""Frames with a window smaller than their content, whose matches reach back further than the window."""

import hashlib
from collections.abc import Iterator

from tests.protocol.craft import block, pack
from tests.protocol.limit_cases import MAGIC, LimitCase, sealed, swarm

WINDOW_BYTES = 1024  # the smallest there is, and with it the largest block
LETTERS = "".join(hashlib.sha256(bytes([i])).hexdigest() for i in range(80))  # nothing in it comes twice
COPIED = 8  # bytes of a match: as many as "rollouts" has


def match_cases() -> Iterator[LimitCase]:
    """A match of 8 bytes at the end of 5 KiB; the last case reaches one byte too far back."""
    manifest = swarm(message_bytes_max=60_000)
    for offset in (WINDOW_BYTES, WINDOW_BYTES + 1, 2600, 5000):
        body = reaching_frame(offset)
        yield LimitCase(
            "reach of a match",
            f"{offset} back",
            "accepted",
            manifest,
            sealed(manifest, body, counter_last=40),
        )
    start = len(whole(bytes(COPIED))) - COPIED
    for name, place, rule in (
        ("the third byte of the content", 2, "accepted"),
        ("before the content", -1, "body_blocks"),
    ):
        body = reaching_frame(start - place)
        yield LimitCase("reach of a match", name, rule, manifest, sealed(manifest, body, counter_last=40))


def reaching_frame(offset: int) -> bytes:
    """A frame in a window of 1 KiB, in stored blocks but for the last, which copies from `offset` bytes back."""
    head = whole(bytes(COPIED))[:-COPIED]
    place = len(head) - offset
    stored, literals = head[:-3], head[-3:]
    blocks = b"".join(
        block(0, len(part), part, last=False)
        for part in (stored[i : i + WINDOW_BYTES] for i in range(0, len(stored), WINDOW_BYTES))
    )
    content = whole(head[place : place + COPIED] if place >= 0 else b"x" * COPIED)
    copying = one_sequence(literals, offset)
    size = (len(content) - 256).to_bytes(2, "little")
    return MAGIC + b"\x40\x00" + size + blocks + block(2, len(copying), copying)


def one_sequence(literals: bytes, offset: int, num_copied: int = COPIED) -> bytes:
    """A compressed block: literals (under 16), then a match of 3 to 34 or 1027 to 2050 bytes; RFC 8878, 3.1.1.3."""
    code = (offset + 3).bit_length() - 1
    match_code, width = (num_copied - 3, 0) if num_copied < 35 else (46, 10)
    # The end mark, the offset's bits, those of the match's length; the literals' length has none.
    bits = (1 << code | offset + 3 - (1 << code)) << width | (num_copied - 1027 if width else 0)
    stream = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
    tables = bytes([0b01010100, len(literals), code, match_code])  # three tables of one code each
    return bytes([len(literals) << 3]) + literals + b"\x01" + tables + stream


def whole(copied: bytes) -> bytes:
    """The content: a long text, and one that ends with what is copied."""
    texts = [LETTERS, "abc" + copied.decode()]
    completions = [{"finished": True, "text": text} for text in texts]
    return pack({"rollouts": [{"dataset": 0, "counter": 40, "completions": completions}]})
