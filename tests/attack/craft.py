"""Messages made by hand: whatever an author can sign, true or not, and whatever a forwarder can send."""

import hashlib
import struct
import time
from collections.abc import Sequence
from typing import Any

import msgpack
import zstandard

from swarmd.protocol.manifest import Manifest
from swarmd.protocol.signing import Identity
from swarmd.protocol.types import Completion, Rollout
from swarmd.protocol.wire import encode_message


def now_ms() -> int:
    """Unix time."""
    return time.time_ns() // 1_000_000


def rollout(dataset: int, counter: int, texts: Sequence[str], **claims: Any) -> dict[str, Any]:
    """A rollout as plain values, `claims` in every completion."""
    completions = [{"text": text, "finished": True, **claims} for text in texts]
    return {"dataset": dataset, "counter": counter, "completions": completions}


def typed(plain: dict[str, Any]) -> Rollout:
    """The same as the protocol's own value, which refuses what no message may hold."""
    completions = tuple(Completion(**completion) for completion in plain["completions"])
    return Rollout(dataset=plain["dataset"], counter=plain["counter"], completions=completions)


def body_of(rollouts: Sequence[dict[str, Any]], **beside: Any) -> bytes:
    """A body, whatever it says."""
    return frame(msgpack.packb({"rollouts": list(rollouts), **beside}, use_bin_type=True))


def frame(content: bytes) -> bytes:
    """A zstd frame that says how large its content is."""
    return zstandard.ZstdCompressor(level=3, write_content_size=True).compress(content)


def sealed(identity: Identity, body: bytes, *, signer: Identity | None = None, **changed: Any) -> bytes:
    """A message with a header that fits the body, but for what is `changed`; signed by `signer`, in the author's name.

    Args:
        changed: header fields; None leaves one out.
    """
    header = {
        "version": 1,
        "author": identity.public_key,
        "created_ms": now_ms(),
        "counter_first": 0,
        "counter_last": 4095,
        "policy": "tiny",
        "policy_version": 1,
        "body_size": len(body),
        "body_sha256": hashlib.sha256(body).digest(),
        **changed,
    }
    packed = msgpack.packb(
        {key: value for key, value in header.items() if value is not None}, use_bin_type=True
    )
    return encode_message(packed, (signer or identity).sign(packed), body)


def batch(
    identity: Identity, manifest: Manifest, rollouts: Sequence[dict[str, Any]], **changed: Any
) -> bytes:
    """A message of these rollouts with a true header."""
    counters = [item["counter"] for item in rollouts]
    fields = {
        "counter_first": min(counters),
        "counter_last": max(counters),
        "swarm": manifest.digest,
        **changed,
    }
    return sealed(identity, body_of(rollouts), **fields)


def bombs() -> list[bytes]:
    """Bodies that cost far more to open than to send."""
    packed_maps = b"\x81\xa8rollouts\xdd" + struct.pack(">I", 200_000) + b"\x80" * 200_000
    nested = b"\x81\xa8rollouts" + b"\x91" * 100_000 + b"\xc0"
    announced = b"\x81\xa8rollouts\xdd\xff\xff\xff\xff"
    text = b"\x81\xa8rollouts\xdb\x7f\xff\xff\xff"
    endless = zstandard.ZstdCompressor(level=3, write_content_size=False).compress(b"\0" * (64 << 20))
    return [
        frame(b"\0" * (64 << 20)),
        frame(b"\0" * (4 << 20)),
        endless,
        _lying_frame(),
        frame(packed_maps),
        frame(nested),
        frame(announced),
        frame(text),
        frame(msgpack.packb({"rollouts": [{}] * 1000})),
        frame(msgpack.packb({"rollouts": [[]] * 100_000})),
        frame(frame(b"\0" * (64 << 20))),
        b"\x50\x2a\x4d\x18" + struct.pack("<I", 1 << 30),
    ]


def _lying_frame() -> bytes:
    """A frame that declares 1,000 bytes and holds 16 MiB: magic, a two-byte size, another frame's blocks."""
    full = zstandard.ZstdCompressor(level=3, write_content_size=True).compress(b"\0" * (16 << 20))
    size = {0: 0, 1: 2, 2: 4, 3: 8}[full[4] >> 6] or (1 if full[4] & 0x20 else 0)
    window = 0 if full[4] & 0x20 else 1
    return full[:4] + bytes([0x60]) + struct.pack("<H", 1000 - 256) + full[5 + window + size :]


def empty_batch(identity: Identity, manifest: Manifest, counter: int, completions: int = 64) -> bytes:
    """The dearest message for its size: 64 rollouts of 64 empty answers in less than a kilobyte."""
    limits, num_datasets = manifest.limits, len(manifest.datasets)
    rollouts = [
        rollout(number % num_datasets, counter + number, [""] * min(completions, limits.completions_max))
        for number in range(limits.rollouts_max)
    ]
    return batch(identity, manifest, rollouts)
