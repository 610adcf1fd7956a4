"""Messages made by hand, good and bad: everything `seal` would refuse to write, correctly signed."""

import hashlib
import struct
from typing import Any

import msgpack

from swarmd.protocol.manifest import DatasetSpec, Limits, Manifest
from swarmd.protocol.signing import Identity
from swarmd.protocol.wire import encode_message
from tests.protocol.second.xxh64 import xxh64

NOW_MS = 1_800_000_000_000
ALICE = Identity.from_seed(bytes(range(32)))
MALLORY = Identity.from_seed(bytes(range(32, 64)))
# Small limits, so that every one of them is passed by a message that fits into a page.
MANIFEST = Manifest(
    name="vectors",
    datasets=(
        DatasetSpec(
            name="chain_sum",
            params={"max_terms": 2, "min_terms": 2},
            golden="cec8fe30c8bc52761c0c1f4325ac930ff150b2e3d80f1a5a637477d71e96774a",
        ),
        DatasetSpec(
            name="bf", params={"difficulty": 1, "styles": ["a", 1, 0.5, True]}, weight=0.5, reward="exact"
        ),
    ),
    prompt_template="{question}\nAnswer in <answer> tags.",
    answer_format="tags",
    scorer_version=1,
    limits=Limits(
        message_bytes_max=4096,
        body_bytes_max=4096,
        header_bytes_max=512,
        rollouts_max=2,
        completions_max=3,
        completion_bytes_max=64,
        counter_span_max=8,
    ),
)


def plain_batch() -> dict[str, Any]:
    """A good body's content, as plain values."""
    return {
        "rollouts": [
            {
                "dataset": dataset,
                "counter": 40 + dataset,
                "completions": [
                    {
                        "text": f"<answer>{dataset}</answer>",
                        "finished": True,
                        "logprob_sum": -1.5,
                        "num_tokens": 7,
                    },
                    {"text": "naïve ✓", "finished": False},
                ],
            }
            for dataset in (0, 1)
        ]
    }


def pack(value: Any) -> bytes:
    """msgpack, also of what the models would refuse."""
    packed: bytes = msgpack.packb(value, use_bin_type=True)
    return packed


def stored_frame(content: bytes, *, declared: int | None = None, blocks: bytes | None = None) -> bytes:
    """A zstd frame without compression (RFC 8878), so that its bytes depend on no library.

    Args:
        declared: the content size to declare, where it is to be a lie.
        blocks: ready blocks in place of one raw block of `content`.
    """
    size = len(content) if declared is None else declared
    if blocks is None:
        blocks = block(0, len(content), content)
    return b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", size) + blocks


def checksummed(content: bytes) -> bytes:
    """The same with a checksum behind the block."""
    frame = stored_frame(content)
    return frame[:4] + b"\xa4" + frame[5:] + (xxh64(content) & 0xFFFFFFFF).to_bytes(4, "little")


def block(kind: int, size: int, content: bytes, *, last: bool = True) -> bytes:
    """One zstd block: kind 0 holds `size` raw bytes, kind 1 one byte to be repeated `size` times."""
    return struct.pack("<I", last | kind << 1 | size << 3)[:3] + content


def plain_header(body: bytes, signer: Identity = ALICE, **changes: Any) -> dict[str, Any]:
    """A good header for `body`, as plain values, with some of them changed."""
    header = {
        "version": 1,
        "author": signer.public_key,
        "created_ms": NOW_MS - 1000,
        "counter_first": 40,
        "counter_last": 41,
        "policy": "tiny",
        "policy_version": 3,
        "body_size": len(body),
        "body_sha256": hashlib.sha256(body).digest(),
        "swarm": MANIFEST.digest,
    }
    return {key: value for key, value in (header | changes).items() if value is not ...}


def signed(header: dict[str, Any] | bytes, body: bytes | None, author: Identity = ALICE) -> bytes:
    """A message over any header, correctly signed by `author`."""
    header_bytes = header if isinstance(header, bytes) else pack(header)
    return encode_message(header_bytes, author.sign(header_bytes), body)


def with_body(body: bytes, **changes: Any) -> bytes:
    """A message around any body, with size and digest that match and a good signature."""
    return signed(plain_header(body, **changes), body)


def with_content(content: Any, **changes: Any) -> bytes:
    """A message around any msgpack content (bytes are taken as they are)."""
    return with_body(stored_frame(content if isinstance(content, bytes) else pack(content)), **changes)
