"""Bytes to objects and back: msgpack inside zstd for bodies, msgpack for headers and messages.

Everything that is decoded was bounded first: the size on the wire, the size after decompression, every string and list. What was
received is never encoded again; signatures and digests are over the bytes that came.
"""

from collections.abc import Iterable
from typing import Any

import msgpack
import zstandard
from pydantic import ValidationError

from swarmd.protocol.manifest import Limits
from swarmd.protocol.types import SIGNATURE_BYTES, Completion, Header, Rollout, RolloutBatch, SignedBatch

_LEVEL = 6
# A window of 8 MiB is zstd's usual maximum; a larger one would cost a decoder that much memory for a body of a few bytes.
_WINDOW_BYTES_MAX = 8 * 2**20
# Room in a message for its own frame: array head, signature, length prefixes.
_ENVELOPE_BYTES = SIGNATURE_BYTES + 32


class WireError(ValueError):
    """Bytes that no honest author could have produced."""


def encode_body(batch: RolloutBatch) -> bytes:
    """msgpack, then one zstd frame that states its content size."""
    packed = msgpack.packb(
        [[r.dataset, r.counter, [_completion(c) for c in r.completions]] for r in batch.rollouts]
    )
    return zstandard.ZstdCompressor(level=_LEVEL, write_content_size=True).compress(packed)


def decode_body(body: bytes, limits: Limits) -> RolloutBatch:
    """The rollouts of a body. Raises WireError."""
    rows = _unpack(_decompress(body, limits.body_bytes_max), limits.body_bytes_max)
    try:
        return RolloutBatch(rollouts=tuple(_rollout(row) for row in _list(rows)))
    except ValidationError as error:
        raise WireError(f"body: {error.error_count()} fields are out of bounds") from None


def encode_header(header: Header) -> bytes:
    """A msgpack array in the order of the model's fields."""
    packed: bytes = msgpack.packb([getattr(header, name) for name in Header.model_fields], use_bin_type=True)
    return packed


def decode_header(data: bytes) -> Header:
    """Raises WireError."""
    values = _list(_unpack(data, len(data)))
    if len(values) != len(Header.model_fields):
        raise WireError(f"header: {len(values)} fields instead of {len(Header.model_fields)}")
    try:
        return Header(**dict(zip(Header.model_fields, values, strict=True)))
    except ValidationError as error:
        raise WireError(f"header: {error.error_count()} fields are out of bounds") from None


def encode_message(header_bytes: bytes, signature: bytes, body: bytes | None) -> bytes:
    """A msgpack array of header, signature and body (nil when the body has to be asked for)."""
    packed: bytes = msgpack.packb([header_bytes, signature, body], use_bin_type=True)
    return packed


def decode_message(data: bytes, limits: Limits) -> SignedBatch:
    """The parts of a message, with its header decoded. Raises WireError."""
    parts = _list(_unpack(data, limits.message_bytes_max))
    if len(parts) != 3:
        raise WireError(f"message: {len(parts)} parts instead of 3")
    header_bytes, signature, body = parts
    if (
        not isinstance(header_bytes, bytes)
        or not isinstance(signature, bytes)
        or not isinstance(body, bytes | None)
    ):
        raise WireError("message: a part has the wrong type")
    if len(header_bytes) > limits.header_bytes_max or len(signature) != SIGNATURE_BYTES:
        raise WireError("message: a part has the wrong size")
    return SignedBatch(decode_header(header_bytes), header_bytes, signature, body, data)


def split(rollouts: Iterable[Rollout], limits: Limits) -> tuple[list[RolloutBatch], int]:
    """Batches that stay below the message limit, and how many rollouts fit into no message at all."""
    room = limits.message_bytes_max - limits.header_bytes_max - _ENVELOPE_BYTES
    batches: list[RolloutBatch] = []
    num_too_large = 0
    pending = [list(rollouts)]
    while pending:
        part = pending.pop()
        if not part:
            continue
        batch = RolloutBatch(rollouts=tuple(part)) if len(part) <= limits.rollouts_max else None
        if batch is not None and _fits(batch, room, limits):
            batches.append(batch)
        elif len(part) == 1:
            num_too_large += 1
        else:
            middle = len(part) // 2
            pending += [part[middle:], part[:middle]]
    return batches, num_too_large


def _fits(batch: RolloutBatch, room: int, limits: Limits) -> bool:
    counters = [rollout.counter for rollout in batch.rollouts]
    texts = [c.text for rollout in batch.rollouts for c in rollout.completions]
    return (
        max(counters) - min(counters) < limits.counter_span_max
        and all(len(rollout.completions) <= limits.completions_max for rollout in batch.rollouts)
        and all(len(text.encode()) <= limits.completion_bytes_max for text in texts)
        and sum(len(text.encode()) + 32 for text in texts) <= limits.body_bytes_max
        and len(encode_body(batch)) <= room
    )


def _completion(completion: Completion) -> list[Any]:
    return [completion.text, completion.finished, completion.logprob_sum, completion.num_tokens]


def _rollout(row: Any) -> Rollout:
    values = _list(row)
    if len(values) != 3:
        raise WireError(f"rollout: {len(values)} fields instead of 3")
    dataset, counter, completions = values
    parsed = []
    for item in _list(completions):
        fields = _list(item)
        if len(fields) != 4:
            raise WireError(f"completion: {len(fields)} fields instead of 4")
        parsed.append(
            Completion(text=fields[0], finished=fields[1], logprob_sum=fields[2], num_tokens=fields[3])
        )
    return Rollout(dataset=dataset, counter=counter, completions=tuple(parsed))


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise WireError(f"a {type(value).__name__} stands where an array should")
    return value


def _unpack(data: bytes, size_max: int) -> Any:
    if len(data) > size_max:
        raise WireError(f"{len(data)} bytes, limit {size_max}")
    try:
        return msgpack.unpackb(
            data,
            raw=False,
            strict_map_key=True,
            use_list=True,
            max_str_len=len(data),
            max_bin_len=len(data),
            max_array_len=min(len(data), 4096),
            max_map_len=0,
            max_ext_len=0,
        )
    except (ValueError, msgpack.exceptions.UnpackException, RecursionError) as error:
        raise WireError(f"not the expected msgpack: {type(error).__name__}") from None


def _decompress(body: bytes, size_max: int) -> bytes:
    """Exactly one zstd frame that states a size within the bound. (`max_output_size` alone is ignored by frames that do.)"""
    try:
        parameters = zstandard.get_frame_parameters(body)
        if not 0 < parameters.content_size <= size_max:
            raise WireError(f"body: states {parameters.content_size} bytes, limit {size_max}")
        decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES_MAX).decompressobj(
            read_across_frames=False
        )
        plain = decompressor.decompress(body)
    except zstandard.ZstdError:
        raise WireError("body: not a zstd frame") from None
    if not decompressor.eof or decompressor.unused_data or len(plain) != parameters.content_size:
        raise WireError("body: not exactly one whole zstd frame")
    return plain
