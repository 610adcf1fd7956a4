"""Messages that only just keep a rule, or break it by one: bounds of fields, forms of msgpack, forms of zstd frames."""

import struct
from collections.abc import Iterator
from typing import Any

from swarmd.protocol.types import INTEGER_MAX
from tests.protocol.case import BODY, Case, batch_with, completion_with, header_with
from tests.protocol.craft import (
    MANIFEST,
    block,
    pack,
    plain_batch,
    plain_header,
    signed,
    with_body,
    with_content,
)

MAGIC = b"\x28\xb5\x2f\xfd"
NOTHING = block(0, 0, b"", last=False)  # an empty block: three bytes of padding


def header_edges() -> Iterator[Case]:
    """Framing and header."""
    size_max = MANIFEST.limits.message_bytes_max
    yield Case("exactly the largest message", "accepted", padded(size_max), keeps="message_size")
    yield Case("the largest message and a byte", "message_size", padded(size_max + 1))
    yield Case(
        "the shortest message that can be read",
        "header_decode",
        signed(b"\xc0", None),
        keeps="message_decode",
    )
    longest = MANIFEST.limits.header_bytes_max
    yield Case("a header of the largest size", "header_fields", _filled(longest), keeps="message_decode")
    yield Case("a header a byte larger", "message_decode", _filled(longest + 1))
    yield Case(
        "a header of the largest size that is cut", "message_decode", _filled(longest)[: 67 + longest - 1]
    )
    for name, header_bytes in {
        "nil": b"\xc0",
        "an integer": b"\x01",
        "text": b"\xa1x",
        "no map but the byte msgpack never uses": b"\xc1",
        "a map that ends too soon": b"\x8a",
        "a map of 17 entries": _map_of(17),
        "a map with nil as a key": b"\x81\xc0\xc0",
        "a map with bytes as a key": b"\x81\xc4\x07version\x01",
        "a map with a text cut within a character": b"\x81\xa7version\xa1\xc3",
        "a map with an overlong character": b"\x81\xa7version\xa2\xc0\x80",
        "two maps": pack(plain_header(BODY)) * 2,
        "a map with bytes of 65 bytes": b"\x81\xa7version\xc4\x41" + bytes(65),
        "a map with an array of 1025": b"\x81\xa7version\xdc\x04\x01",
    }.items():
        yield Case(f"header is {name}", "header_decode", signed(header_bytes, BODY))
    yield Case("header is a map of 16 entries", "version", signed(_map_of(16), BODY), keeps="header_decode")
    yield Case("header is an empty map", "version", signed(b"\x80", BODY), keeps="header_decode")
    wide = signed(_widest(plain_header(BODY)), BODY)
    yield Case("every value and length in its widest form", "accepted", wide, keeps="header_decode")
    for name, version in {"0": 0, "-1": -1, "nil": None, "an array": [1], "2**64 - 1": 2**64 - 1}.items():
        yield Case(f"version is {name}", "version", header_with(version=version))
    yield Case(
        "version in eight bytes",
        "accepted",
        signed(_widened(pack(plain_header(BODY))), BODY),
        keeps="version",
    )
    body_one = signed(plain_header(b"x"), b"x")
    yield Case("a body of one byte", "body_frame", body_one, keeps="body_missing")
    yield Case("a body of one byte, and said to be", "body_frame", body_one, keeps="body_size")
    yield Case("a body said to be a byte longer", "body_size", header_with(body_size=len(BODY) + 1))
    yield Case("a body said to be of 2**53 - 1 bytes", "body_size", header_with(body_size=INTEGER_MAX))
    yield Case(
        "eight counters where eight may be",
        "accepted",
        header_with(counter_first=36, counter_last=43),
        keeps="counter_range",
    )
    yield Case(
        "all counters there are", "counter_range", header_with(counter_first=0, counter_last=INTEGER_MAX)
    )


def field_edges() -> Iterator[Case]:
    """The bounds of every field of the header, both ways."""
    for name, changes in {
        "policy empty": {"policy": ""},
        "policy of 64 characters": {"policy": "~" * 64},
        "policy of blanks": {"policy": " " * 64},
        "policy version 0": {"policy_version": 0},
        "policy version 2**53 - 1": {"policy_version": INTEGER_MAX},
    }.items():
        yield Case(name, "accepted", header_with(**changes), keeps="header_fields")
    last = batch_with(lambda rollouts: [r.update(counter=INTEGER_MAX) for r in rollouts])
    yield Case("counters outside, at the largest there is", "counter_outside", last, keeps="body_fields")
    yield Case("the largest counter there is", "accepted", _at_counter(INTEGER_MAX), keeps="header_fields")
    yield Case("the smallest counter there is", "accepted", _at_counter(0), keeps="header_fields")
    for name, changes in {
        "created_ms below 0": {"created_ms": -1},
        "created_ms above 2**53 - 1": {"created_ms": INTEGER_MAX + 1},
        "created_ms as text": {"created_ms": "1800000000000"},
        "last counter above 2**53 - 1": {"counter_last": INTEGER_MAX + 1},
        "counter as a whole float": {"counter_first": 40.0},
        "policy version below 0": {"policy_version": -1},
        "policy version above 2**53 - 1": {"policy_version": INTEGER_MAX + 1},
        "policy as bytes": {"policy": b"tiny"},
        "policy nil": {"policy": None},
        "policy with the byte 0x7f": {"policy": "tiny\x7f"},
        "policy with the byte 0x1f": {"policy": "tiny\x1f"},
        "policy with a bidi override": {"policy": "\u202eynit"},
        "author of 33 bytes": {"author": bytes(33)},
        "author empty": {"author": b""},
        "author nil": {"author": None},
        "digest of 31 bytes": {"body_sha256": bytes(31)},
        "digest as text": {"body_sha256": "x" * 32},
        "swarm of 31 bytes": {"swarm": bytes(31)},
        "swarm of 33 bytes": {"swarm": bytes(33)},
        "swarm nil": {"swarm": None},
        "swarm as text": {"swarm": ""},
        "body size below 0": {"body_size": -1},
        "body size above 2**53 - 1": {"body_size": INTEGER_MAX + 1},
        "body size true": {"body_size": True},
    }.items():
        yield Case(name, "header_fields", header_with(**changes))
    for name in plain_header(BODY):
        if name not in ("version", "swarm", "policy"):
            yield Case(f"{name} is missing", "header_fields", header_with(**{name: ...}))
    yield Case("swarm absent", "accepted", header_with(swarm=...), keeps="swarm")
    yield Case("swarm of no bytes", "accepted", header_with(swarm=b""), keeps="swarm")
    other = bytes([MANIFEST.digest[0] ^ 1]) + MANIFEST.digest[1:]
    yield Case("swarm with one bit changed", "swarm", header_with(swarm=other))


def frame_edges() -> Iterator[Case]:
    """Every form of a zstd frame that a receiver must take, and the next that it must not."""
    content = pack(plain_batch())
    size, raw = len(content), block(0, len(content), content)
    assert 256 <= size < 65792
    two, eight = (size - 256).to_bytes(2, "little"), size.to_bytes(8, "little")
    cut = 100
    pieces = block(0, cut, content[:cut], last=False) + block(0, size - cut, content[cut:])
    padding = [NOTHING * (num - 1) + raw for num in (1024, 1025)]
    for name, body in {
        "size in two bytes": MAGIC + b"\x60" + two + raw,
        "size in eight bytes": MAGIC + b"\xe0" + eight + raw,
        "two blocks": MAGIC + b"\x60" + two + pieces,
        "an empty last block": MAGIC + b"\x60" + two + block(0, size, content, last=False) + block(0, 0, b""),
        "an empty repeated block": MAGIC + b"\x60" + two + block(1, 0, b"x", last=False) + raw,
        "1024 blocks": MAGIC + b"\x60" + two + padding[0],
        "a window of exactly 8 MiB": MAGIC + b"\x40\x68" + two + raw,
        "a window of 1 KiB, the smallest": MAGIC + b"\x40\x00" + two + raw,
        "dictionary 0": MAGIC + b"\x63\x00\x00\x00\x00" + two + raw,
        "the bit that is not used": MAGIC + b"\x70" + two + raw,
    }.items():
        yield Case(f"frame: {name}", "accepted", with_body(body), keeps="body_frame")
    for name, body in {
        "1025 blocks": MAGIC + b"\x60" + two + padding[1],
        "a window of 9 MiB": MAGIC + b"\x40\x69" + two + raw,
        "dictionary 1": MAGIC + b"\x61\x01" + two + raw,
        "the reserved bit": MAGIC + b"\x68" + two + raw,
        "a block of the reserved kind": MAGIC + b"\x60" + two + block(3, size, content),
        "a stored block larger than the content": MAGIC + b"\x60" + two + block(0, size + 1, content + b"x"),
        "a repeated block larger than the content": MAGIC + b"\x60" + two + block(1, size + 1, b"x"),
        "a last block missing": MAGIC + b"\x60" + two + block(0, size, content, last=False),
        "a block cut in its head": MAGIC + b"\x60" + two + raw[:2],
        "only the magic number": MAGIC,
        "a head that is cut": MAGIC + b"\xe0" + eight[:7],
        "the magic number of an older format": b"\x27" + MAGIC[1:] + b"\x60" + two + raw,
        "a checksum promised and missing": MAGIC + b"\x64" + two + raw,
        "no content, a window": MAGIC + b"\x40\x00" + bytes(2) + block(0, 0, b""),
        "2**64 - 1 bytes declared": MAGIC + b"\xe0" + b"\xff" * 8 + raw,
        "a bomb in the last block": MAGIC
        + b"\x60"
        + two
        + block(0, size, content, last=False)
        + block(1, 131072, b"x"),
    }.items():
        yield Case(f"frame: {name}", "body_frame", with_body(body))


def content_edges() -> Iterator[Case]:
    """The bounds of the body's fields, and of msgpack in it."""
    content = pack(plain_batch())
    maps = 1 + MANIFEST.limits.rollouts_max * (1 + MANIFEST.limits.completions_max)
    for name, raw in {
        "as many maps as can be": b"\x81\xa8rollouts" + bytes([0x90 + maps - 1]) + b"\x80" * (maps - 1),
        "an array of 1024": b"\x81\xa8rollouts\xdc\x04\x00" + b"\xc0" * 1024,
        "a map of 16 entries": _map_of(16),
        "bytes of 64 bytes": b"\x81\xa8rollouts\xc4\x40" + bytes(64),
        "arrays, 32 deep": b"\x81\xa8rollouts" + b"\x91" * 32 + b"\xc0",
        "an empty map": b"\x80",
    }.items():
        yield Case(f"content: {name}", "body_fields", with_content(raw), keeps="body_decode")
    for name, raw in {
        "nil": b"\xc0",
        "nothing but a map's head": b"\x81",
        "an array of 1025": b"\x81\xa8rollouts\xdc\x04\x01" + b"\xc0" * 1025,
        "a map of 17 entries": _map_of(17),
        "bytes of 65 bytes": b"\x81\xa8rollouts\xc4\x41" + bytes(65),
        "an integer as a key": b"\x81\x01\xc0",
        "a float cut": content[: content.index(b"\xcb") + 4],
        "an extension of 16 bytes": b"\x81\xa8rollouts\xd8\x05" + bytes(16),
        "an extension of 4 GiB": b"\x81\xa8rollouts\xc9\xff\xff\xff\xff\x05",
        "a map of 4 billion": b"\x81\xa8rollouts\xdf\xff\xff\xff\xff",
        "text that promises a byte more": b"\x81\xa8rollouts\xa2x",
        "the content twice": content * 2,
        "text with half a character": content.replace("✓".encode(), b"\xe2\x9cx"),
        "text beyond the last character": content.replace(b"\xaana", b"\xabna").replace(
            "✓".encode(), b"\xf4\x90\x80\x80"
        ),
    }.items():
        yield Case(f"content: {name}", "body_decode", with_content(raw))
    wide = with_content(_widest(plain_batch()))
    yield Case("content: every value and length in its widest form", "accepted", wide, keeps="body_decode")
    for name, changes in {
        "log-prob of a billion": {"logprob_sum": 1e9},
        "log-prob of minus a billion": {"logprob_sum": -1e9},
        "log-prob of minus a billion, as an integer": {"logprob_sum": -(10**9)},
        "log-prob of minus zero": {"logprob_sum": -0.0},
        "no tokens": {"num_tokens": 0},
        "2**20 tokens": {"num_tokens": 2**20},
        "claims absent": {"logprob_sum": ..., "num_tokens": ...},
        "the last character there is": {"text": "\U0010ffff"},
    }.items():
        yield Case(name, "accepted", completion_with(**changes), keeps="body_fields")
    single = content.replace(b"\xcb" + struct.pack(">d", -1.5), b"\xca" + struct.pack(">f", -1.5))
    yield Case("log-prob as a float of four bytes", "accepted", with_content(single), keeps="body_fields")
    for name, changes in {
        "log-prob just above a billion": {"logprob_sum": 1e9 + 1e-6},
        "log-prob above a billion, as an integer": {"logprob_sum": 10**9 + 1},
        "log-prob of 2**64 - 1": {"logprob_sum": 2**64 - 1},
        "log-prob infinite, above": {"logprob_sum": float("inf")},
        "tokens as text": {"num_tokens": "7"},
        "finished nil": {"finished": None},
        "finished missing": {"finished": ...},
        "text an integer": {"text": 1},
        "token ids": {"tokens": [1, 2]},
    }.items():
        yield Case(name, "body_fields", completion_with(**changes))


def batch_edges() -> Iterator[Case]:
    """Numbers of rollouts and completions, datasets, counters."""
    yield Case("one rollout", "accepted", batch_with(lambda rollouts: rollouts.pop()), keeps="rollouts_count")
    yield Case(
        "the last dataset", "accepted", batch_with(lambda r: r[0].update(dataset=1)), keeps="dataset_range"
    )
    last = batch_with(lambda rollouts: rollouts[0].update(dataset=1023))
    yield Case("the largest dataset number that can be read", "dataset_range", last, keeps="body_fields")
    yield Case("a dataset number above 1023", "body_fields", batch_with(lambda r: r[0].update(dataset=1024)))
    first_and_last = with_content(plain_batch(), counter_first=40, counter_last=41)
    yield Case("counters at both ends of the range", "accepted", first_and_last, keeps="counter_outside")
    yield Case(
        "one below the range's end",
        "counter_outside",
        with_content(plain_batch(), counter_first=41, counter_last=41),
    )
    same = batch_with(lambda rollouts: rollouts[1].update(counter=40))
    yield Case("one counter in two datasets", "accepted", same, keeps="counter_repeated")
    neighbours = batch_with(lambda rollouts: rollouts[1].update(dataset=0))
    yield Case("two counters of one dataset", "accepted", neighbours, keeps="counter_repeated")
    three = batch_with(lambda r: r[0]["completions"].append(r[0]["completions"][0]))
    yield Case("three completions where three may be", "accepted", three, keeps="completions_count")
    yield Case(
        "64 bytes of text in 32 characters",
        "accepted",
        completion_with(text="é" * 32),
        keeps="completion_size",
    )
    yield Case("65 bytes of text", "completion_size", completion_with(text="x" * 65))


def padded(size: int) -> bytes:
    """A good message of exactly `size` bytes: long texts in wide forms, then empty blocks, and the policy's name for the rest."""
    completion = {"text": "x" * 64, "finished": True, "logprob_sum": -1.5, "num_tokens": 7}
    rollouts = [{"dataset": 0, "counter": counter, "completions": [completion] * 3} for counter in (40, 41)]
    content = _widest({"rollouts": rollouts})
    head, raw = MAGIC + b"\xa0" + struct.pack("<I", len(content)), block(0, len(content), content)
    left = size - len(with_body(head + NOTHING + raw, policy=""))
    message = with_body(head + NOTHING * (1 + left // 3) + raw, policy="x" * (left % 3))
    assert len(message) == size
    return message


def _filled(size: int) -> bytes:
    """A message whose header has exactly `size` bytes, by a field that nobody knows."""
    fields: dict[str, Any] = plain_header(BODY) | {"x": ""}
    fields["x"] = "x" * (size - len(pack(fields | {"x": "x" * 300})) + 300)
    header_bytes = pack(fields)
    assert len(header_bytes) == size, len(header_bytes)
    return signed(header_bytes, BODY)


def _map_of(num: int) -> bytes:
    return (
        b"\xde" + num.to_bytes(2, "big") + b"".join(b"\xa1" + bytes([97 + i]) + b"\xc0" for i in range(num))
    )


def _at_counter(counter: int) -> bytes:
    batch = {"rollouts": [plain_batch()["rollouts"][0] | {"counter": counter}]}
    return with_content(batch, counter_first=counter, counter_last=counter)


def _widened(header_bytes: bytes) -> bytes:
    return header_bytes.replace(b"\xa7version\x01", b"\xa7version\xcf" + (1).to_bytes(8, "big"))


def _widest(value: Any) -> bytes:
    """msgpack with every length in four bytes and every integer in eight."""
    if value is None or isinstance(value, (bool, float)):
        return pack(value)
    if isinstance(value, int):
        return b"\xd3" + value.to_bytes(8, "big", signed=True)
    if isinstance(value, bytes):
        return b"\xc6" + struct.pack(">I", len(value)) + value
    if isinstance(value, str):
        return b"\xdb" + struct.pack(">I", len(value.encode())) + value.encode()
    if isinstance(value, list):
        return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(_widest, value))
    return (
        b"\xdf" + struct.pack(">I", len(value)) + b"".join(_widest(k) + _widest(v) for k, v in value.items())
    )
