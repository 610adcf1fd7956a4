"""Bytes to values and back, without keys, clocks or opinions: framing, header, body, and cutting rollouts into messages.

    message = 0x01 | header size, 2 bytes big-endian | signature, 64 bytes | header | body (may be absent)
    header  = msgpack map        body = zstd frame of a msgpack map

The framing has one encoding for one content, so nobody can vary a message without touching what its author signed or the signature.
"""

import struct
from typing import NamedTuple, TypeVar

import msgpack
from pydantic import ValidationError

from swarmd.garbage import unsearched
from swarmd.protocol.compression import DamagedBlocks, compress, decompress
from swarmd.protocol.manifest import Limits
from swarmd.protocol.types import (
    PROTOCOL_VERSION,
    SIGNATURE_BYTES,
    Completion,
    Header,
    Rollout,
    RolloutBatch,
    SignedBatch,
    WireModel,
)

MESSAGE_FORMAT = 1
_PREFIX = struct.Struct(f">BH{SIGNATURE_BYTES}s")
# The largest header of this implementation (every integer at its maximum, a full policy name) has 318 bytes; some room is added.
HEADER_BYTES_RESERVED = 384
_MAP_ENTRIES_MAX = 16  # the largest map of the protocol, the header, has 10
_ARRAY_MAX = 1024  # types.ROLLOUTS_MAX, the larger of the two ceilings
_NAMES = frozenset(
    {*Header.model_fields, *RolloutBatch.model_fields, *Rollout.model_fields, *Completion.model_fields}
)

Model = TypeVar("Model", bound=WireModel)


class WireError(ValueError):
    """Bytes that no honest implementation writes.

    Attributes:
        rule: the rule they break, see `rules.RULES`.
        detail: what was found, in our words and numbers; nothing the peer chose.
    """

    def __init__(self, rule: str, detail: str) -> None:
        super().__init__(f"{rule}: {detail}")
        self.rule, self.detail = rule, detail


class Split(NamedTuple):
    """`batches` in the order of the rollouts; `num_dropped` rollouts break the swarm's limits even alone."""

    batches: list[RolloutBatch]
    num_dropped: int


def encode_header(header: Header) -> bytes:
    """The header's bytes, to be signed and sent; `swarm` is left out when empty."""
    return _pack(header.model_dump(exclude_defaults=True))


def decode_header(header_bytes: bytes) -> Header:
    """The header in `header_bytes`.

    Raises:
        WireError: header_decode, version or header_fields.
    """
    # [REJECT] header_decode
    fields = _unpack(header_bytes, "header_decode", text_bytes_max=len(header_bytes), maps_max=1)
    version = fields.get("version")
    # [REJECT] version: before the fields, since another version may have others
    if type(version) is not int or version != PROTOCOL_VERSION:
        raise WireError("version", f"not version {PROTOCOL_VERSION}")
    # [REJECT] header_fields
    return _model(Header, fields, "header_fields")


def encode_body(batch: RolloutBatch) -> bytes:
    """The batch as a zstd frame of msgpack; claims that are None are left out."""
    return compress(_pack(batch.model_dump(exclude_none=True)))


def decode_body(body: bytes, limits: Limits) -> RolloutBatch:
    """The batch in `body`; the swarm's limits on its contents are rules of their own.

    Raises:
        WireError: body_frame, body_blocks, body_decode or body_fields.
    """
    # [REJECT] body_frame
    try:
        content = decompress(body, content_bytes_max=limits.body_bytes_max)
    except DamagedBlocks as error:
        # [IGNORE] body_blocks: an honest forwarder's decoder may have taken it
        raise WireError("body_blocks", str(error)) from None
    except ValueError as error:
        raise WireError("body_frame", str(error)) from None
    # [REJECT] body_decode
    maps_max = 1 + limits.rollouts_max * (1 + limits.completions_max)
    # The search took more than half of the time for 4,096 completions, and now and then 20 ms for the whole heap.
    with unsearched():
        fields = _unpack(content, "body_decode", text_bytes_max=limits.body_bytes_max, maps_max=maps_max)
        # [REJECT] body_fields
        return _model(RolloutBatch, fields, "body_fields")


def encode_message(header_bytes: bytes, signature: bytes, body: bytes | None) -> bytes:
    if len(signature) != SIGNATURE_BYTES:
        raise ValueError(f"a signature has {SIGNATURE_BYTES} bytes, not {len(signature)}")
    return _PREFIX.pack(MESSAGE_FORMAT, len(header_bytes), signature) + header_bytes + (body or b"")


def decode_message(data: bytes, limits: Limits) -> SignedBatch:
    """Framing and header of a message; the body is cut out, not opened.

    Raises:
        WireError: message_size, message_decode, or as `decode_header`.
    """
    # [REJECT] message_size
    if len(data) > limits.message_bytes_max:
        raise WireError("message_size", f"{len(data)} bytes of at most {limits.message_bytes_max}")
    # [REJECT] message_decode
    if len(data) < _PREFIX.size:
        raise WireError("message_decode", f"{len(data)} bytes, at least {_PREFIX.size}")
    message_format, header_size, signature = _PREFIX.unpack_from(data)
    if message_format != MESSAGE_FORMAT:
        raise WireError("message_decode", f"format {message_format}, not {MESSAGE_FORMAT}")
    header_end = _PREFIX.size + header_size
    if not 0 < header_size <= limits.header_bytes_max or header_end > len(data):
        raise WireError("message_decode", f"header of {header_size} bytes, at most {limits.header_bytes_max}")
    header_bytes = data[_PREFIX.size : header_end]
    return SignedBatch(
        header=decode_header(header_bytes),
        header_bytes=header_bytes,
        signature=signature,
        body=data[header_end:] or None,
        data=data,
    )


def named_author(data: bytes, limits: Limits) -> bytes | None:
    """The author that a message names, whoever sent it; None where it names none."""
    try:
        return decode_message(data, limits).header.author
    except WireError:
        return None


def split(rollouts: tuple[Rollout, ...] | list[Rollout], limits: Limits) -> Split:
    """Cut rollouts, in order, into batches that every node of the swarm takes. A batch that does not fit is halved.

    A rollout that does not fit alone is dropped and counted, and the caller reports it. It is too long when encoded, has too few or
    too many completions, or has one completion that is too long.
    """
    if not rollouts:
        return Split([], 0)
    batch = RolloutBatch(rollouts=tuple(rollouts[: limits.rollouts_max]))
    if len(rollouts) <= limits.rollouts_max and _fits(batch, limits):
        return Split([batch], 0)
    if len(rollouts) == 1:
        return Split([], 1)
    middle = len(rollouts) // 2
    left, right = split(rollouts[:middle], limits), split(rollouts[middle:], limits)
    return Split(left.batches + right.batches, left.num_dropped + right.num_dropped)


def _fits(batch: RolloutBatch, limits: Limits) -> bool:
    counters = [rollout.counter for rollout in batch.rollouts]
    if max(counters) - min(counters) >= limits.counter_span_max:
        return False
    for rollout in batch.rollouts:
        if not limits.completions_min <= len(rollout.completions) <= limits.completions_max:
            return False
        if any(len(c.text.encode()) > limits.completion_bytes_max for c in rollout.completions):
            return False
    content = _pack(batch.model_dump(exclude_none=True))
    body_bytes_max = limits.message_bytes_max - _PREFIX.size - HEADER_BYTES_RESERVED
    return len(content) <= limits.body_bytes_max and len(compress(content)) <= body_bytes_max


def _pack(fields: dict[str, object]) -> bytes:
    packed: bytes = msgpack.packb(fields, use_bin_type=True)
    return packed


def _unpack(data: bytes, rule: str, *, text_bytes_max: int, maps_max: int) -> dict[str, object]:
    try:
        fields = msgpack.unpackb(
            data,
            raw=False,
            use_list=False,
            strict_map_key=True,
            object_pairs_hook=_Maps(maps_max),
            ext_hook=refuse_extension,  # max_ext_len alone lets an empty one pass
            max_str_len=text_bytes_max,
            max_bin_len=64,
            max_array_len=_ARRAY_MAX,
            max_map_len=_MAP_ENTRIES_MAX,
            max_ext_len=0,
        )
    except (ValueError, TypeError, OverflowError) as error:  # every way in which msgpack refuses
        raise WireError(rule, f"msgpack: {type(error).__name__}") from None
    if type(fields) is not dict:
        raise WireError(rule, "not a map")
    return fields


def refuse_extension(code: int, content: bytes) -> None:
    """For `msgpack.unpackb(ext_hook=...)`: no message of ours holds an extension type.

    Raises:
        ValueError: always.
    """
    raise ValueError("an extension type")


class _Maps:
    """Makes the maps of one msgpack value. It refuses a key that occurs twice, and more maps than the protocol has a use for.

    Without that bound a message of 313 bytes, which decompress to 256,000 empty maps, kept a core busy for 280 ms.
    """

    def __init__(self, num_max: int) -> None:
        self._num_left = num_max

    def __call__(self, pairs: list[tuple[object, object]]) -> dict[object, object]:
        self._num_left -= 1
        if self._num_left < 0:
            raise ValueError("too many maps")
        fields = dict(pairs)
        if len(fields) != len(pairs):
            raise ValueError("a key occurs twice")  # parsers would disagree on which of the two counts
        # strict_map_key lets bytes pass. One comparison settles it for the maps that are right, of which a message has thousands.
        if not fields.keys() <= _NAMES and not all(type(key) is str for key in fields):
            raise ValueError("a key is no text")
        return fields


def _model(kind: type[Model], fields: dict[str, object], rule: str) -> Model:
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        # Names of unknown fields are the peer's choice and stay out; positions and our own names do not.
        known = first["type"] not in ("extra_forbidden", "invalid_key")
        place = ".".join(map(str, first["loc"])) if known else "some field"
        raise WireError(rule, f"{place}: {first['type']}") from None
