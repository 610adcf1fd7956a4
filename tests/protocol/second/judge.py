"""RULES.md, read off line by line. Returns the name of the first broken rule, or `accepted`."""

import hashlib
import math
import re
from collections.abc import Callable
from typing import Any

from tests.protocol.second import ed25519
from tests.protocol.second.formats import Bad, Msgpack
from tests.protocol.second.manifest import Wide
from tests.protocol.second.zstd import Damaged, zstd_content

INTEGERS = ("created_ms", "counter_first", "counter_last", "policy_version", "body_size")
HEADER = {"version", "author", "policy", "body_sha256", *INTEGERS}


def is_integer(value: Any, low: int = 0, high: int = 2**53 - 1) -> bool:
    return type(value) is int and low <= value <= high


def judge(
    message: bytes,
    now_ms: int,
    memory: set[bytes],
    manifest_bytes: bytes,
    verify: Callable[[bytes, bytes, bytes], bool] = ed25519.verify,
) -> str:
    """The rule that decides.

    Args:
        memory: the duplicate keys; gets this one when it is to be remembered.
        verify: replaced where thousands of signatures are known to be good.
    """
    manifest: dict[str, Any] = Wide(manifest_bytes, 10_000).whole()
    limits = manifest["limits"]
    if len(message) > limits["message_bytes_max"]:
        return "message_size"
    header_size = int.from_bytes(message[1:3], "big")
    if len(message) < 67 or message[0] != 1 or not 1 <= header_size <= limits["header_bytes_max"]:
        return "message_decode"
    if len(message) < 67 + header_size:
        return "message_decode"
    signature, header_bytes, body = message[3:67], message[67 : 67 + header_size], message[67 + header_size :]
    try:
        header = Msgpack(header_bytes, 1).whole()
    except Bad:
        return "header_decode"
    if not is_integer(header.get("version"), 1, 1):
        return "version"
    digest = hashlib.sha256(b"swarmd/1/manifest\0" + manifest_bytes).digest()
    broken = judge_header(header, limits, digest, body) or judge_time(header, limits, now_ms)
    if broken:
        return broken
    author = header["author"]
    key = hashlib.sha256(b"swarmd/1/duplicate\0" + author + header_bytes).digest()
    if key in memory:
        return "duplicate"
    if not ed25519.is_sound(author):
        return "author_key"
    if not verify(author, b"swarmd/1/header\0" + author + header_bytes, signature):
        return "signature"
    if hashlib.sha256(body).digest() != header["body_sha256"]:
        return "body_digest"
    memory.add(key)
    return judge_body(body, header, manifest) or "accepted"


def judge_header(header: dict[str, Any], limits: dict[str, int], digest: bytes, body: bytes) -> str | None:
    """header_fields to body_size."""
    if set(header) - {"swarm"} != HEADER or not all(is_integer(header[name]) for name in INTEGERS):
        return "header_fields"
    swarm, policy = header.get("swarm", b""), header["policy"]
    if type(policy) is not str or not re.fullmatch(r"[ -~]{0,64}", policy) or header["body_size"] < 1:
        return "header_fields"
    if any(type(header[name]) is not bytes or len(header[name]) != 32 for name in ("author", "body_sha256")):
        return "header_fields"
    if type(swarm) is not bytes or len(swarm) not in (0, 32):
        return "header_fields"
    if swarm not in (b"", digest):
        return "swarm"
    first, last = header["counter_first"], header["counter_last"]
    if not first <= last < first + limits["counter_span_max"]:
        return "counter_range"
    if not body:
        return "body_missing"
    return "body_size" if header["body_size"] != len(body) else None


def judge_time(header: dict[str, Any], limits: dict[str, int], now_ms: int) -> str | None:
    """age_future and age_stale."""
    if header["created_ms"] > now_ms + 1000 * limits["skew_s_max"]:
        return "age_future"
    return "age_stale" if header["created_ms"] < now_ms - 1000 * limits["age_s_max"] else None


def judge_body(body: bytes, header: dict[str, Any], manifest: dict[str, Any]) -> str | None:
    """body_frame to completion_size."""
    limits = manifest["limits"]
    try:
        content = zstd_content(body, limits["body_bytes_max"])
    except Damaged:
        return "body_blocks"
    except Bad:
        return "body_frame"
    try:
        batch = Msgpack(content, 1 + limits["rollouts_max"] * (1 + limits["completions_max"])).whole()
    except Bad:
        return "body_decode"
    if set(batch) != {"rollouts"} or type(batch["rollouts"]) is not list:
        return "body_fields"
    rollouts = batch["rollouts"]
    if not all(is_rollout(rollout) for rollout in rollouts):
        return "body_fields"
    if not 1 <= len(rollouts) <= limits["rollouts_max"]:
        return "rollouts_count"
    if any(rollout["dataset"] >= len(manifest["datasets"]) for rollout in rollouts):
        return "dataset_range"
    if any(
        not header["counter_first"] <= rollout["counter"] <= header["counter_last"] for rollout in rollouts
    ):
        return "counter_outside"
    if len({(rollout["dataset"], rollout["counter"]) for rollout in rollouts}) < len(rollouts):
        return "counter_repeated"
    nums = [len(rollout["completions"]) for rollout in rollouts]
    if min(nums) < limits["completions_min"] or max(nums) > limits["completions_max"]:
        return "completions_count"
    texts = [completion["text"] for rollout in rollouts for completion in rollout["completions"]]
    return "completion_size" if max(len(t.encode()) for t in texts) > limits["completion_bytes_max"] else None


def is_rollout(value: Any) -> bool:
    """The types and bounds of WIRE.md."""
    if type(value) is not dict or set(value) != {"dataset", "counter", "completions"}:
        return False
    completions = value["completions"]
    return (
        is_integer(value["dataset"], 0, 1023)
        and is_integer(value["counter"])
        and type(completions) is list
        and len(completions) <= 256
        and all(is_completion(completion) for completion in completions)
    )


def is_completion(value: Any) -> bool:
    """The types and bounds of WIRE.md."""
    if type(value) is not dict or not {"text", "finished"} <= set(value):
        return False
    if not set(value) <= {"text", "finished", "logprob_sum", "num_tokens"}:
        return False
    claim, num_tokens = value.get("logprob_sum"), value.get("num_tokens")
    return (
        type(value["text"]) is str
        and len(value["text"]) <= 65_536
        and type(value["finished"]) is bool
        and (claim is None or (type(claim) in (int, float) and math.isfinite(claim) and abs(claim) <= 1e9))
        and (num_tokens is None or is_integer(num_tokens, 0, 2**20))
    )
