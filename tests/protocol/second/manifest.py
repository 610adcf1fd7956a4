"""A manifest's canonical bytes as WIRE.md wants them, with its digest, topic, seeds and held-out prompts."""

import hashlib
import math
import re
import struct
import tomllib
from collections.abc import Callable
from typing import Any

from tests.protocol.second.formats import Bad, Msgpack

INTEGER_MAX = 2**53 - 1
# field of `limits`: lowest and highest value
LIMITS = {
    "message_bytes_max": (4096, 60_000),
    "body_bytes_max": (4096, 4_194_304),
    "header_bytes_max": (512, 2048),
    "rollouts_max": (1, 1024),
    "completions_min": (1, 256),
    "completions_max": (1, 256),
    "completion_bytes_max": (64, 65_536),
    "counter_span_max": (1, INTEGER_MAX),
    "age_s_max": (1, 86_400),
    "skew_s_max": (0, 3600),
}
# What a document may leave out, and what it means then.
DEFAULTS: dict[str, Any] = {"version": 2, "epoch": 0, "held_out_per_mille": 50, "limits": {}}
DATASET_DEFAULTS: dict[str, Any] = {"params": {}, "weight": 1.0, "reward": "upstream", "golden": ""}
LIMITS_DEFAULTS = {
    "message_bytes_max": 60_000,
    "body_bytes_max": 262_144,
    "header_bytes_max": 2048,
    "rollouts_max": 64,
    "completions_min": 2,
    "completions_max": 64,
    "completion_bytes_max": 16_384,
    "counter_span_max": 4096,
    "age_s_max": 600,
    "skew_s_max": 60,
}


def read(data: bytes) -> dict[str, Any]:
    """The fields. Raises Bad for anything but the canonical bytes of a manifest."""
    if len(data) > 65_536:
        raise Bad("too long")
    manifest = Wide(data, 10_000).whole()
    demand(MANIFEST, manifest)
    if manifest["prompt_template"].count("{question}") != 1:
        raise Bad("the question is not there once")
    limits = manifest["limits"]
    if limits["completions_min"] > limits["completions_max"]:
        raise Bad("the least is above the most")
    if limits["rollouts_max"] * limits["completions_max"] > 8192:
        raise Bad("too many completions in a batch")
    if packed(manifest) != data:
        raise Bad("not canonical")
    return manifest


def from_toml(document: str) -> bytes:
    """The canonical bytes of the manifest in a document, with what it leaves out. Raises Bad."""
    try:
        fields = DEFAULTS | tomllib.loads(document)
    except tomllib.TOMLDecodeError:
        raise Bad("no TOML") from None
    fields["limits"] = LIMITS_DEFAULTS | fields["limits"]
    fields["datasets"] = [DATASET_DEFAULTS | one for one in fields.get("datasets", [])]
    for one in fields["datasets"]:
        if type(one["weight"]) is int:
            one["weight"] = float(one["weight"])
    demand(MANIFEST, fields)
    data = packed(fields)
    read(data)
    return data


def digest(data: bytes) -> bytes:
    """Of canonical bytes."""
    return hashlib.sha256(b"swarmd/1/manifest\0" + data).digest()


def topic(data: bytes) -> str:
    """The gossip topic."""
    return f"/swarmd/1/{read(data)['name']}/{digest(data).hex()[:16]}"


def seed(manifest_digest: bytes, epoch: int, author: bytes, dataset: int, counter: int) -> int:
    """Of the question at an address."""
    numbers = epoch.to_bytes(8, "big"), dataset.to_bytes(4, "big"), counter.to_bytes(8, "big")
    document = b"swarmd/1/question\0" + manifest_digest + numbers[0] + author + numbers[1] + numbers[2]
    assert len(document) == 102
    return int.from_bytes(hashlib.sha256(document).digest(), "big") % 2**31


def is_held_out(per_mille: int, prompt: str) -> bool:
    """Whether nobody trains on it."""
    first = int.from_bytes(hashlib.sha256(prompt.encode()).digest()[:4], "big")
    return first * 1000 < per_mille * 2**32


class Wide(Msgpack):
    """msgpack without the bounds of messages: a manifest is no message, and has its own size."""

    ENTRIES_MAX, ELEMENTS_MAX, BYTES_MAX = 64, 1024, 65_536


Demand = Callable[[Any], bool]


def integer(low: int, high: int = INTEGER_MAX) -> Demand:
    return lambda value: type(value) is int and low <= value <= high


def text(pattern: str, size_max: int = 10_000) -> Demand:
    return lambda value: (
        type(value) is str and len(value) <= size_max and bool(re.fullmatch(pattern, value, re.DOTALL))
    )


def scalar(value: Any) -> bool:
    return (
        type(value) is bool
        or integer(-INTEGER_MAX)(value)
        or (type(value) is float and math.isfinite(value))
        or text(".*", 1024)(value)
    )


def params(value: Any) -> bool:
    return (
        type(value) is dict
        and len(value) <= 64
        and all(map(NAME, value))
        and all(
            scalar(one) or (type(one) is list and len(one) <= 256 and all(map(scalar, one)))
            for one in value.values()
        )
    )


def datasets(value: Any) -> bool:
    return type(value) is list and 1 <= len(value) <= 1024 and all(map(is_map(DATASET), value))


def is_map(fields: dict[str, Demand]) -> Demand:
    return lambda value: (
        type(value) is dict
        and set(value) == set(fields)
        and all(fields[name](value[name]) for name in fields)
    )


NAME = text("[a-z][a-z0-9_]{0,63}")
DATASET: dict[str, Demand] = {
    "name": NAME,
    "params": params,
    "weight": lambda value: type(value) is float and 0 < value <= 1e6,
    "reward": text("upstream|exact"),
    "golden": text("([0-9a-f]{64})?"),
}
MANIFEST: dict[str, Demand] = {
    "version": integer(2, 2),
    "name": text("[a-z][a-z0-9-]{0,31}"),
    "datasets": datasets,
    "prompt_template": text(".*", 8192),
    "answer_format": text("tags|plain"),
    "scorer_version": integer(1),
    "epoch": integer(0),
    "held_out_per_mille": integer(0, 500),
    "limits": is_map({name: integer(*bounds) for name, bounds in LIMITS.items()}),
}


def demand(fields: dict[str, Demand], value: dict[str, Any]) -> None:
    if set(value) != set(fields):
        raise Bad("other fields")
    for name, holds in fields.items():
        if not holds(value[name]):
            raise Bad(name)


def packed(value: Any) -> bytes:
    """The shortest msgpack, keys sorted by their bytes."""
    if value is None or type(value) is bool:
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if type(value) is float:
        return b"\xcb" + struct.pack(">d", value)
    if type(value) is int:
        return _integer(value)
    if type(value) is str:
        data = value.encode()
        return _head(len(data), 0xA0, 32, (0xD9, 0xDA, 0xDB)) + data
    if type(value) is list:
        return _head(len(value), 0x90, 16, (None, 0xDC, 0xDD)) + b"".join(map(packed, value))
    if type(value) is dict:
        pairs = sorted(value.items(), key=lambda pair: pair[0].encode())
        return _head(len(pairs), 0x80, 16, (None, 0xDE, 0xDF)) + b"".join(
            packed(k) + packed(v) for k, v in pairs
        )
    raise Bad("a kind that no manifest holds")


def _head(num: int, short: int, short_max: int, codes: tuple[int | None, int, int]) -> bytes:
    if num < short_max:
        return bytes([short + num])
    for code, width in zip(codes, (1, 2, 4), strict=True):
        if code is not None and num < 256**width:
            return bytes([code]) + num.to_bytes(width, "big")
    raise Bad("too long")


def _integer(value: int) -> bytes:
    if -32 <= value < 128:
        return struct.pack(">b", value)
    first = 0xCC if value >= 0 else 0xD0
    for index, width in enumerate((1, 2, 4, 8)):
        try:
            return bytes([first + index]) + value.to_bytes(width, "big", signed=value < 0)
        except OverflowError:
            continue
    raise Bad("too large")
