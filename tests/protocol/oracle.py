"""What `proto/` demands of a header's fields and a body's content, written a second time, to hold the fuzzed rules against."""

import math
import re
from typing import Any

from swarmd.protocol.manifest import Manifest
from tests.protocol.craft import NOW_MS

INTEGER_MAX = 2**53 - 1
COMPLETION_FIELDS = {"text", "finished", "logprob_sum", "num_tokens"}
HEADER_FIELDS = {
    "version",
    "author",
    "created_ms",
    "counter_first",
    "counter_last",
    "policy",
    "policy_version",
    "body_size",
    "body_sha256",
}


def is_integer(value: Any, low: int = 0, high: int = INTEGER_MAX) -> bool:
    """An integer, and no bool, within the bounds."""
    return type(value) is int and low <= value <= high


def is_good_content(content: Any, counter_first: int, counter_last: int, manifest: Manifest) -> bool:
    """Whether a body with this content is to be accepted under a header with this range."""
    limits = manifest.limits
    if type(content) is not dict or set(content) != {"rollouts"} or type(content["rollouts"]) is not list:
        return False
    rollouts = content["rollouts"]
    if not 1 <= len(rollouts) <= limits.rollouts_max:
        return False
    for rollout in rollouts:
        if type(rollout) is not dict or set(rollout) != {"dataset", "counter", "completions"}:
            return False
        if not is_integer(rollout["dataset"], 0, len(manifest.datasets) - 1):
            return False
        if not is_integer(rollout["counter"], counter_first, counter_last):
            return False
        completions = rollout["completions"]
        if (
            type(completions) is not list
            or not limits.completions_min <= len(completions) <= limits.completions_max
        ):
            return False
        if not all(is_good_completion(completion, limits.completion_bytes_max) for completion in completions):
            return False
    return len({(rollout["dataset"], rollout["counter"]) for rollout in rollouts}) == len(rollouts)


def is_good_completion(completion: Any, bytes_max: int) -> bool:
    """Whether this may be a completion."""
    if type(completion) is not dict or not {"text", "finished"} <= set(completion) <= COMPLETION_FIELDS:
        return False
    text, logprob_sum, num_tokens = (
        completion["text"],
        completion.get("logprob_sum"),
        completion.get("num_tokens"),
    )
    if type(text) is not str or len(text.encode()) > bytes_max or type(completion["finished"]) is not bool:
        return False
    if logprob_sum is not None and not (
        type(logprob_sum) in (int, float) and math.isfinite(logprob_sum) and abs(logprob_sum) <= 1e9
    ):
        return False
    return num_tokens is None or is_integer(num_tokens, 0, 2**20)


def is_good_header(header: Any, digest: bytes, body_size: int, author: bytes, manifest: Manifest) -> bool:
    """Whether this header, signed by `author`, is to be accepted around the plain body."""
    if type(header) is not dict or set(header) - {"swarm"} != HEADER_FIELDS:
        return False
    integers = ("version", "created_ms", "counter_first", "counter_last", "policy_version", "body_size")
    if not all(is_integer(header[name]) for name in integers) or type(header["policy"]) is not str:
        return False
    limits = manifest.limits
    return (
        header["version"] == 1
        and header["author"] == author
        and header["body_size"] == body_size
        and header["body_sha256"] == digest
        and header.get("swarm", b"") in (b"", manifest.digest)
        and re.fullmatch(r"[ -~]{0,64}", header["policy"]) is not None
        and NOW_MS - limits.age_s_max * 1000 <= header["created_ms"] <= NOW_MS + limits.skew_s_max * 1000
        and header["counter_first"] <= 40
        and 41 <= header["counter_last"] < header["counter_first"] + limits.counter_span_max
    )
