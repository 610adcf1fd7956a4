"""The rules of the topic, in order: what is accepted, ignored (perhaps honest) and rejected (no honest author sent this).

Pure functions of bytes and arguments. Each rule has one name, which is the comment here, the heading in `proto/RULES.md`, the
vector's field, the test and the metric label. Cheap rules come first, and nothing is decompressed before its signature held.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from swarmd.protocol.manifest import Manifest
from swarmd.protocol.seen import Seen, duplicate_key
from swarmd.protocol.signing import verify
from swarmd.protocol.types import VERSION, RolloutBatch, SignedBatch, VerifiedBatch
from swarmd.protocol.wire import WireError, decode_body, decode_message

_T = TypeVar("_T")


class Verdict(Enum):
    """What gossip does with a message: hand it on, drop and punish, or only drop."""

    ACCEPT = "accept"
    REJECT = "reject"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict, the rule that gave it (`accepted` when all passed), and the batch when it was accepted."""

    verdict: Verdict
    rule: str
    batch: VerifiedBatch | None = None
    detail: str = ""


RULES = (
    "message_size",
    "message_form",
    "version",
    "counter_range",
    "from_the_future",
    "too_old",
    "duplicate",
    "signature",
    "body_present",
    "body_digest",
    "body_form",
    "body_limits",
    "counters",
    "internal",
)


class _Stop(Exception):
    def __init__(self, verdict: Verdict, rule: str, detail: str = "") -> None:
        self.outcome = Outcome(verdict, rule, None, detail)


def validate(data: bytes, *, now_ms: int, seen: Seen, manifest: Manifest) -> Outcome:
    """Every rule in order on one message. `seen` learns the message once its signature held. Never raises."""
    try:
        signed = _header_rules(data, now_ms, manifest)
        key = duplicate_key(signed.header, signed.header_bytes)
        # [IGNORE] duplicate: the same author's same batch was seen before
        _check(key not in seen, Verdict.IGNORE, "duplicate")
        # [REJECT] signature: the author's key signed domain, author and header
        _check(
            verify(signed.header.author, signed.header_bytes, signed.signature), Verdict.REJECT, "signature"
        )
        seen.add(key)
        return Outcome(Verdict.ACCEPT, "accepted", VerifiedBatch(signed, _body_rules(signed, manifest)))
    except _Stop as stop:
        return stop.outcome
    except Exception as error:  # noqa: BLE001 - [IGNORE] internal: an exception here is our bug, never the peer's fault
        return Outcome(Verdict.IGNORE, "internal", None, type(error).__name__)


def _header_rules(data: bytes, now_ms: int, manifest: Manifest) -> SignedBatch:
    limits = manifest.limits
    # [REJECT] message_size: at most message_bytes_max bytes
    _check(len(data) <= limits.message_bytes_max, Verdict.REJECT, "message_size", str(len(data)))
    # [REJECT] message_form: an array of header, signature and body, each of the right type, size and fields
    signed = _decoded(lambda: decode_message(data, limits), "message_form")
    header = signed.header
    # [IGNORE] version: this build speaks one version; another may be honest
    _check(header.version == VERSION, Verdict.IGNORE, "version", str(header.version))
    # [REJECT] counter_range: first is not above last, and the span is bounded
    span = header.counter_last - header.counter_first
    _check(0 <= span < limits.counter_span_max, Verdict.REJECT, "counter_range", str(span))
    # [IGNORE] from_the_future: created at most skew_s_max after now; somebody's clock may be wrong
    _check(header.created_ms <= now_ms + limits.skew_s_max * 1000, Verdict.IGNORE, "from_the_future")
    # [IGNORE] too_old: created at most age_s_max before now
    _check(header.created_ms >= now_ms - limits.age_s_max * 1000, Verdict.IGNORE, "too_old")
    return signed


def _body_rules(signed: SignedBatch, manifest: Manifest) -> RolloutBatch:
    header, limits = signed.header, manifest.limits
    # [IGNORE] body_present: this version carries bodies inline
    if signed.body is None:
        raise _Stop(Verdict.IGNORE, "body_present")
    # [REJECT] body_digest: size and SHA-256 are those of the header
    digest = hashlib.sha256(signed.body).digest()
    same = len(signed.body) == header.body_size and digest == header.body_sha256
    _check(same, Verdict.REJECT, "body_digest")
    # [REJECT] body_form: one zstd frame of bounded size, msgpack of the right shape
    body = signed.body
    batch = _decoded(lambda: decode_body(body, limits), "body_form")
    # [REJECT] body_limits: rollouts, completions and completion sizes within the manifest's limits
    _check(_within(batch, manifest), Verdict.REJECT, "body_limits")
    # [REJECT] counters: the header's range is exactly that of the body, and no question stands twice
    counters = [rollout.counter for rollout in batch.rollouts]
    addresses = {(rollout.dataset, rollout.counter) for rollout in batch.rollouts}
    exact = (min(counters), max(counters)) == (header.counter_first, header.counter_last)
    _check(exact and len(addresses) == len(counters), Verdict.REJECT, "counters")
    return batch


def _within(batch: RolloutBatch, manifest: Manifest) -> bool:
    limits = manifest.limits
    return len(batch.rollouts) <= limits.rollouts_max and all(
        rollout.dataset < len(manifest.datasets)
        and len(rollout.completions) <= limits.completions_max
        and all(len(c.text.encode()) <= limits.completion_bytes_max for c in rollout.completions)
        for rollout in batch.rollouts
    )


def _check(held: bool, verdict: Verdict, rule: str, detail: str = "") -> None:
    if not held:
        raise _Stop(verdict, rule, detail)


def _decoded(decode: Callable[[], _T], rule: str) -> _T:
    try:
        return decode()
    except WireError as error:
        raise _Stop(Verdict.REJECT, rule, str(error)) from None
