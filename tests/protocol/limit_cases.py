"""For every limit of a manifest, and every ceiling of the protocol, a message at it and one past it, under own manifests."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from swarmd.protocol.manifest import Limits, Manifest
from swarmd.protocol.rules import VERDICT_OF, Verdict
from swarmd.protocol.types import INTEGER_MAX
from tests.protocol.craft import MANIFEST, NOW_MS, block, pack, plain_header, signed, stored_frame

MAGIC = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class LimitCase:
    """A message judged by `manifest` at `now_ms`, with an empty memory. `limit` is the name that the pair is about."""

    limit: str
    name: str
    rule: str
    manifest: Manifest
    message: bytes
    now_ms: int = NOW_MS

    @property
    def verdict(self) -> Verdict:
        return VERDICT_OF[self.rule]


def limit_cases() -> list[LimitCase]:
    """All of them, the one at the limit before the one past it."""
    return [*_sizes(), *_numbers(), *_times(), *_ceilings()]


def _sizes() -> Iterator[LimitCase]:
    wide = swarm(body_bytes_max=4096, completion_bytes_max=65_536)
    for size, rule in ((4096, "accepted"), (4097, "body_frame")):
        yield LimitCase(
            "body_bytes_max", f"{size} bytes of content", rule, wide, long_text(wide, content_size=size)
        )
    short = swarm(completion_bytes_max=64)
    for size, rule in ((64, "accepted"), (65, "completion_size")):
        yield LimitCase("completion_bytes_max", f"{size} bytes of text", rule, short, long_text(short, size))
    for size, rule in ((512, "header_fields"), (513, "message_decode")):
        manifest = swarm(header_bytes_max=512)
        yield LimitCase(
            "header_bytes_max", f"{size} bytes of header", rule, manifest, _long_header(manifest, size)
        )
    manifest = swarm(message_bytes_max=4096)
    for size, rule in ((4096, "body_size"), (4097, "message_size")):
        message = batch(manifest)
        longer = message + bytes(size - len(message))
        yield LimitCase("message_bytes_max", f"{size} bytes", rule, manifest, longer)


def _numbers() -> Iterator[LimitCase]:
    for num_max in (1, 2, 9):
        manifest = swarm(rollouts_max=num_max)
        for num, rule in ((num_max, "accepted"), (num_max + 1, "rollouts_count")):
            message = batch(manifest, num_rollouts=num)
            yield LimitCase("rollouts_max", f"{num} of {num_max} rollouts", rule, manifest, message)
    for low, high in ((1, 1), (2, 3), (5, 64)):
        manifest = swarm(completions_min=low, completions_max=high)
        for num, rule in ((low, "accepted"), (low - 1, "completions_count")):
            message = batch(manifest, num_completions=num)
            yield LimitCase("completions_min", f"{num} of {low} completions", rule, manifest, message)
        for num, rule in ((high, "accepted"), (high + 1, "completions_count")):
            message = batch(manifest, num_completions=num)
            yield LimitCase("completions_max", f"{num} of {high} completions", rule, manifest, message)
    for span in (1, 8, INTEGER_MAX):
        manifest = swarm(counter_span_max=span)
        last = min(span - 1, INTEGER_MAX - 1)
        for more, rule in ((0, "accepted"), (1, "counter_range")):
            message = batch(manifest, counter=0, counter_first=0, counter_last=last + more)
            yield LimitCase(
                "counter_span_max", f"{last + more + 1} counters of {span}", rule, manifest, message
            )


def _times() -> Iterator[LimitCase]:
    for age_s in (1, 600, 86_400):
        manifest = swarm(age_s_max=age_s)
        for more, rule in ((0, "accepted"), (1, "age_stale")):
            message = batch(manifest, created_ms=NOW_MS - 1000 * age_s - more)
            yield LimitCase(
                "age_s_max", f"{1000 * age_s + more} ms old, {age_s} s allowed", rule, manifest, message
            )
    for skew_s in (0, 60, 3600):
        manifest = swarm(skew_s_max=skew_s)
        for more, rule in ((0, "accepted"), (1, "age_future")):
            message = batch(manifest, created_ms=NOW_MS + 1000 * skew_s + more)
            yield LimitCase(
                "skew_s_max", f"{1000 * skew_s + more} ms ahead, {skew_s} s allowed", rule, manifest, message
            )
    for now_ms, created_ms, rule in (
        (0, 0, "accepted"),
        (0, 60_001, "age_future"),
        (600_000, 0, "accepted"),
        (600_001, 0, "age_stale"),
        (INTEGER_MAX, INTEGER_MAX, "accepted"),
        (INTEGER_MAX - 60_000, INTEGER_MAX, "accepted"),
        (INTEGER_MAX - 60_001, INTEGER_MAX, "age_future"),
    ):
        manifest = swarm()
        message = batch(manifest, created_ms=created_ms)
        yield LimitCase(
            "clock", f"created at {created_ms}, judged at {now_ms}", rule, manifest, message, now_ms
        )


def _ceilings() -> Iterator[LimitCase]:
    """What no manifest can allow: the bounds of WIRE.md under the widest manifest."""
    widest = swarm(
        body_bytes_max=4_194_304,
        rollouts_max=32,
        completions_min=1,
        completions_max=256,
        completion_bytes_max=65_536,
    )
    for size, rule in ((60_000, "body_size"), (60_001, "message_size")):
        message = batch(widest)
        yield LimitCase("bytes of a message", f"{size}", rule, widest, message + bytes(size - len(message)))
    for size, rule in ((2048, "header_fields"), (2049, "message_decode")):
        yield LimitCase("bytes of a header", f"{size}", rule, widest, _long_header(widest, size))
    for num, rule in ((256, "accepted"), (257, "body_fields")):
        message = batch(widest, num_completions=num)
        yield LimitCase("completions of a rollout", f"{num}", rule, widest, message)
    for size, rule in ((65_536, "accepted"), (65_537, "body_fields")):
        yield LimitCase("characters of a text", f"{size}", rule, widest, long_text(widest, size))
    for num, rule in ((1024, "body_fields"), (1025, "body_decode")):
        body = stored_frame(b"\x81\xa8rollouts\xdc" + num.to_bytes(2, "big") + b"\xc0" * num)
        yield LimitCase("elements of an array", f"{num}", rule, widest, sealed(widest, body))
    for size, rule in ((131_072, "body_decode"), (131_073, "body_frame")):
        body = stored_frame(b"", declared=size, blocks=block(1, size, b"\xc0"))
        yield LimitCase("bytes of a block", f"{size}", rule, widest, sealed(widest, body))
    for size, rule in ((1024, "accepted"), (1025, "body_frame")):
        yield LimitCase("bytes of a block, by the window", f"{size}", rule, widest, _windowed(widest, size))
    for size, rule in ((4_194_304, "body_decode"), (4_194_305, "body_frame")):
        blocks = block(1, 131_072, b"\xc0", last=False) * 32 + block(1, size - 4_194_304, b"\xc0")
        body = stored_frame(b"", declared=size, blocks=blocks)
        yield LimitCase("bytes of content", f"{size}", rule, widest, sealed(widest, body))


def swarm(**limits: Any) -> Manifest:
    """The vectors' swarm with the default limits but for some."""
    return MANIFEST.model_copy(update={"limits": Limits(**limits)})


def sealed(manifest: Manifest, body: bytes, **changes: Any) -> bytes:
    """A message of this swarm around any body."""
    return signed(plain_header(body, **({"swarm": manifest.digest} | changes)), body)


def batch(
    manifest: Manifest,
    *,
    num_rollouts: int = 1,
    num_completions: int | None = None,
    counter: int = 40,
    **changes: Any,
) -> bytes:
    """A message of as many rollouts with as many completions; the header's range is just theirs."""
    num = manifest.limits.completions_min if num_completions is None else num_completions
    completions = [{"text": "", "finished": True}] * num
    rollouts = [
        {"dataset": 0, "counter": counter + index, "completions": completions}
        for index in range(num_rollouts)
    ]
    fields = {"counter_first": counter, "counter_last": counter + num_rollouts - 1} | changes
    return sealed(manifest, stored_frame(pack({"rollouts": rollouts})), **fields)


def long_text(manifest: Manifest, size: int | None = None, *, content_size: int | None = None) -> bytes:
    """A message with one long text, of `size` letters or such that the content has `content_size` bytes; one repeated block."""
    mark = "~" * (size or 300)
    texts = [{"text": mark, "finished": True}] + [{"text": "", "finished": True}] * (
        manifest.limits.completions_min - 1
    )
    content = pack({"rollouts": [{"dataset": 0, "counter": 40, "completions": texts}]})
    if content_size is not None:
        return long_text(manifest, len(mark) + content_size - len(content))
    before, _, behind = content.partition(mark.encode())
    blocks = block(0, len(before), before, last=False) + block(1, len(mark), b"x", last=False)
    body = stored_frame(b"", declared=len(content), blocks=blocks + block(0, len(behind), behind))
    return sealed(manifest, body, counter_last=40)


def _long_header(manifest: Manifest, size: int) -> bytes:
    """No header that is right is as long as `header_bytes_max` must be: a field that nobody knows fills it."""
    body = stored_frame(b"x")
    fields: dict[str, Any] = plain_header(body, swarm=manifest.digest) | {"x": "x" * 300}
    fields["x"] = "x" * (300 + size - len(pack(fields)))
    return signed(pack(fields), body)


def _windowed(manifest: Manifest, size: int) -> bytes:
    """A frame with a window of 1 KiB, whose first block has `size` bytes."""
    completions = [{"text": "x" * 600, "finished": True}] * 3
    content = pack({"rollouts": [{"dataset": 0, "counter": 40, "completions": completions}]})
    first, second = content[:size], content[size:]
    head = MAGIC + b"\x40\x00" + (len(content) - 256).to_bytes(2, "little")
    blocks = block(0, len(first), first, last=False) + block(0, len(second), second)
    return sealed(manifest, head + blocks, counter_last=40)
