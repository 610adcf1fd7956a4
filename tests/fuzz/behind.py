"""Target: behind the signature. The input is a recipe for what is inside; framing, digest and signature are then made right.

The first two bytes choose the recipe's kind and dress, the rest is its matter; so the fuzzer's own mutations, which know
bytes only, move about in msgpack, in zstd frames and among field values alike.
"""

from collections.abc import Callable
from typing import Any

import zstandard

from swarmd.protocol.manifest import Limits, Manifest, load_manifest
from swarmd.protocol.rules import Verdict
from swarmd.protocol.wire import encode_message
from tests.fuzz.edits import SIZE_MAX, Taker, edited
from tests.fuzz.finding import require
from tests.fuzz.judged import judged
from tests.protocol.craft import (
    ALICE,
    MALLORY,
    MANIFEST,
    NOW_MS,
    block,
    pack,
    plain_batch,
    plain_header,
    stored_frame,
)

# One with limits a page can pass, one as swarms have it, and the widest there can be, where the slowest messages fit.
WIDEST = Limits(
    body_bytes_max=4_194_304,
    rollouts_max=32,
    completions_min=1,
    completions_max=256,
    completion_bytes_max=65_536,
    counter_span_max=2**53 - 1,
)
MANIFESTS = (MANIFEST, load_manifest("reasoning"), MANIFEST.model_copy(update={"limits": WIDEST}))
LARGE_BYTES = 8192


def check(data: bytes) -> None:
    """Judge the message that the recipe makes.

    Raises:
        Finding: a promise is broken.
    """
    message, manifest = message_of(data)
    kind = data[0] % len(RECIPES) if data else 0
    is_large = RECIPES[kind] in (_repeated_content, _repeated_blocks) or len(message) > LARGE_BYTES
    outcome = judged(message, manifest, NOW_MS, is_large=is_large)
    if outcome.batch is not None:
        require(outcome.verdict is Verdict.ACCEPT, "accepted")
        require(outcome.batch.signed.data == message, "the bytes are kept as they came")


def message_of(data: bytes) -> tuple[bytes, Manifest]:
    """The message of a recipe, and the manifest it is for."""
    taker = Taker(data)
    kind, dress = taker.byte(), taker.byte()
    manifest = MANIFESTS[2 if dress & 0x80 else dress & 1]
    header_bytes, body = RECIPES[kind % len(RECIPES)](taker, dress, manifest)
    signer = MALLORY if dress & 2 else ALICE
    signature = signer.sign(header_bytes)
    if kind & 0x80:
        signature = taker.bytes(8).ljust(8, b"\0") + signature[8:]
    return encode_message(header_bytes[:65535], signature, body), manifest


def good_header(body: bytes, dress: int, manifest: Manifest) -> dict[str, Any]:
    """A good header for `body`, by either author."""
    return plain_header(body, MALLORY if dress & 2 else ALICE, swarm=manifest.digest)


def frame(content: bytes, dress: int) -> bytes:
    """A zstd frame, stored or compressed."""
    content = content[:SIZE_MAX]
    if not dress & 4:
        return stored_frame(content, blocks=_stored_blocks(content))
    compressor = zstandard.ZstdCompressor(level=1 + (dress >> 4) % 4, write_checksum=bool(dress & 8))
    return compressor.compress(content)


def _stored_blocks(content: bytes) -> bytes:
    """Raw blocks of at most 128 KiB, the format's limit."""
    pieces = [content[i : i + 131072] for i in range(0, len(content), 131072)] or [b""]
    return b"".join(
        block(0, len(piece), piece, last=index == len(pieces) - 1) for index, piece in enumerate(pieces)
    )


def _raw_content(taker: Taker, dress: int, manifest: Manifest) -> tuple[bytes, bytes]:
    body = frame(taker.rest(), dress)
    return pack(good_header(body, dress, manifest)), body


def _raw_frame(taker: Taker, dress: int, manifest: Manifest) -> tuple[bytes, bytes]:
    body = taker.rest()
    return pack(good_header(body, dress, manifest)), body


def _raw_header(taker: Taker, dress: int, manifest: Manifest) -> tuple[bytes, bytes]:
    return taker.rest(), frame(pack(plain_batch()), dress)


def _edited_batch(taker: Taker, dress: int, manifest: Manifest) -> tuple[bytes, bytes]:
    body = frame(pack(edited(plain_batch(), taker)), dress)
    return pack(good_header(body, dress, manifest)), body


def _edited_header(taker: Taker, dress: int, manifest: Manifest) -> tuple[bytes, bytes]:
    body = frame(pack(plain_batch()), dress)
    return pack(edited(good_header(body, dress, manifest), taker)), body


def _edited_both(taker: Taker, dress: int, manifest: Manifest) -> tuple[bytes, bytes]:
    body = frame(pack(edited(plain_batch(), taker)), dress)
    return pack(edited(good_header(body, dress, manifest), taker)), body


def _repeated_content(taker: Taker, dress: int, manifest: Manifest) -> tuple[bytes, bytes]:
    """Much from little: what a few bytes, repeated, cost to decode."""
    start, unit, num, end = taker.bytes(), taker.bytes(), taker.number(3), taker.bytes()
    num = min(num, SIZE_MAX // max(len(unit), 1))
    body = frame(start + unit * num + end, dress)
    return pack(good_header(body, dress, manifest)), body


def _repeated_blocks(taker: Taker, dress: int, manifest: Manifest) -> tuple[bytes, bytes]:
    """A frame whose blocks repeat: bombs, in every dress."""
    start, kind, size, num = taker.bytes(), taker.byte() & 3, taker.number(3) & 0x1FFFFF, taker.number(2)
    unit = block(kind, size, taker.bytes(), last=False)
    num = min(num, 58_000 // len(unit))
    body = b"\x28\xb5\x2f\xfd" + start + unit * num + block(0, 0, b"") + taker.rest()
    return pack(good_header(body, dress, manifest)), body


RECIPES: tuple[Callable[[Taker, int, Manifest], tuple[bytes, bytes]], ...] = (
    _raw_content,
    _raw_frame,
    _raw_header,
    _edited_batch,
    _edited_header,
    _edited_both,
    _repeated_content,
    _repeated_blocks,
)
