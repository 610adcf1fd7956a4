"""The rules of the topic, in order: what is taken, what is refused as provably false, what is left alone.

REJECT: no honest author could have sent this, and no honest forwarder would pass it on; punish who handed it over.
IGNORE: maybe honest.

Cheap checks come first. A message is decompressed and remembered only after its author's signature held.
Each rule's name is also the heading in `proto/RULES.md`, the field in `proto/vectors/rules.json` and the label of the metric.
"""

import hashlib
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from swarmd.protocol.manifest import Limits, Manifest
from swarmd.protocol.seen import Seen
from swarmd.protocol.signing import duplicate_key, is_sound_key, verify
from swarmd.protocol.types import Header, RolloutBatch, SignedBatch, VerifiedBatch
from swarmd.protocol.wire import WireError, decode_body, decode_message


class Verdict(Enum):
    """The answer to a message."""

    ACCEPT = "accept"
    REJECT = "reject"
    IGNORE = "ignore"


VERDICT_OF: Final = MappingProxyType(
    {
        "message_size": Verdict.REJECT,
        "message_decode": Verdict.REJECT,
        "header_decode": Verdict.REJECT,
        "version": Verdict.REJECT,
        "header_fields": Verdict.REJECT,
        "swarm": Verdict.REJECT,
        "counter_range": Verdict.REJECT,
        "body_missing": Verdict.REJECT,
        "body_size": Verdict.REJECT,
        "age_future": Verdict.IGNORE,
        "age_stale": Verdict.IGNORE,
        "duplicate": Verdict.IGNORE,
        "author_key": Verdict.REJECT,
        "signature": Verdict.REJECT,
        "body_digest": Verdict.REJECT,
        "body_frame": Verdict.REJECT,
        "body_blocks": Verdict.IGNORE,
        "body_decode": Verdict.REJECT,
        "body_fields": Verdict.REJECT,
        "rollouts_count": Verdict.REJECT,
        "dataset_range": Verdict.REJECT,
        "counter_outside": Verdict.REJECT,
        "counter_repeated": Verdict.REJECT,
        "completions_count": Verdict.REJECT,
        "completion_size": Verdict.REJECT,
        "accepted": Verdict.ACCEPT,
        "internal": Verdict.IGNORE,
    }
)
"""Every rule once, in order; `accepted` when none is broken, `internal` when we failed."""

RULES: tuple[str, ...] = tuple(VERDICT_OF)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The judgement of one message. `batch` is there exactly when the verdict is ACCEPT; `detail` holds no text of the peer's."""

    verdict: Verdict
    rule: str
    batch: VerifiedBatch | None
    detail: str


class _Broken(Exception):
    def __init__(self, rule: str, detail: str) -> None:
        super().__init__(rule)
        self.rule, self.detail = rule, detail


def validate(data: bytes, *, now_ms: int, seen: Seen, manifest: Manifest) -> Outcome:
    """Judge one message.

    Args:
        data: the message as it came.
        now_ms: Unix time by this node's clock, milliseconds.
        seen: what came before; the message is added once its author's signature and the body's digest hold.
        manifest: the swarm's.
    """
    try:
        signed = decode_message(data, manifest.limits)  # message_size to header_fields
        _check_header(signed, manifest)
        _check_age(signed.header, now_ms, manifest.limits)
        # Past both limits the message is too old by any clock that we might have had.
        limits = manifest.limits
        until_ms = now_ms + (limits.age_s_max + limits.skew_s_max) * 1000
        body = _check_authorship(signed, seen, now_ms=now_ms, until_ms=until_ms)
        batch = decode_body(body, manifest.limits)  # body_frame to body_fields
        _check_batch(batch, signed.header, manifest)
    except (WireError, _Broken) as broken:
        return Outcome(VERDICT_OF[broken.rule], broken.rule, None, broken.detail)
    except Exception as error:  # noqa: BLE001  A bug of ours must neither end the node nor be blamed on a peer.
        return Outcome(Verdict.IGNORE, "internal", None, type(error).__name__)
    return Outcome(Verdict.ACCEPT, "accepted", VerifiedBatch(signed, batch), "")


def _check_header(signed: SignedBatch, manifest: Manifest) -> None:
    header, limits = signed.header, manifest.limits
    # [REJECT] swarm
    if header.swarm and header.swarm != manifest.digest:
        raise _Broken("swarm", "signed for another swarm")
    # [REJECT] counter_range
    if not 0 <= header.counter_last - header.counter_first < limits.counter_span_max:
        raise _Broken("counter_range", f"counters {header.counter_first} to {header.counter_last}")
    # [REJECT] body_missing
    if signed.body is None:
        raise _Broken("body_missing", "no body behind the header")
    # [REJECT] body_size
    if header.body_size != len(signed.body):
        raise _Broken("body_size", f"{len(signed.body)} bytes, {header.body_size} announced")


def _check_age(header: Header, now_ms: int, limits: Limits) -> None:
    # [IGNORE] age_future
    if header.created_ms > now_ms + limits.skew_s_max * 1000:
        raise _Broken("age_future", f"{header.created_ms - now_ms} ms ahead of this node's clock")
    # [IGNORE] age_stale
    if header.created_ms < now_ms - limits.age_s_max * 1000:
        raise _Broken("age_stale", f"{now_ms - header.created_ms} ms old")


def _check_authorship(signed: SignedBatch, seen: Seen, *, now_ms: int, until_ms: int) -> bytes:
    author, body = signed.header.author, signed.body or b""
    key = duplicate_key(author, signed.header_bytes)
    # [IGNORE] duplicate
    if key in seen:
        raise _Broken("duplicate", "came before")
    # [REJECT] author_key
    if not is_sound_key(author):
        raise _Broken("author_key", "not a point of the prime-order group")
    # [REJECT] signature
    if not verify(author, signed.header_bytes, signed.signature):
        raise _Broken("signature", "the author did not sign this header")
    # [REJECT] body_digest
    if hashlib.sha256(body).digest() != signed.header.body_sha256:
        raise _Broken("body_digest", "not the body that was signed")
    # Only now: if the header alone were remembered, a thief could silence its author by sending it first with a wrong body.
    seen.add(key, now_ms=now_ms, until_ms=until_ms)
    return body


def _check_batch(batch: RolloutBatch, header: Header, manifest: Manifest) -> None:
    limits = manifest.limits
    # [REJECT] rollouts_count
    if not 1 <= len(batch.rollouts) <= limits.rollouts_max:
        raise _Broken("rollouts_count", f"{len(batch.rollouts)} rollouts, 1 to {limits.rollouts_max}")
    # [REJECT] dataset_range
    if max(rollout.dataset for rollout in batch.rollouts) >= len(manifest.datasets):
        raise _Broken("dataset_range", f"the swarm has {len(manifest.datasets)} datasets")
    counters = [rollout.counter for rollout in batch.rollouts]
    # [REJECT] counter_outside
    if min(counters) < header.counter_first or max(counters) > header.counter_last:
        raise _Broken("counter_outside", "a counter outside the header's range")
    # [REJECT] counter_repeated
    if len({(rollout.dataset, rollout.counter) for rollout in batch.rollouts}) != len(counters):
        raise _Broken("counter_repeated", "two rollouts with one address")
    for rollout in batch.rollouts:
        num = len(rollout.completions)
        # [REJECT] completions_count
        if not limits.completions_min <= num <= limits.completions_max:
            raise _Broken(
                "completions_count",
                f"{num} completions, {limits.completions_min} to {limits.completions_max}",
            )
    for rollout in batch.rollouts:
        # UTF-8 takes at most four bytes a character: a text that is short enough for that need not be encoded to be measured.
        texts = [c.text for c in rollout.completions if 4 * len(c.text) > limits.completion_bytes_max]
        size = max((len(text.encode()) for text in texts), default=0)
        # [REJECT] completion_size
        if size > limits.completion_bytes_max:
            raise _Broken("completion_size", f"{size} bytes, at most {limits.completion_bytes_max}")
