"""One message for every way to break (or just keep) a rule; `make_vectors` writes them down, the tests run them."""

from collections.abc import Iterator

from swarmd.protocol.rules import VERDICT_OF
from swarmd.protocol.types import INTEGER_MAX
from tests.protocol.body_cases import content_cases, frame_cases
from tests.protocol.case import (
    BODY,
    COMPRESSED_BODY,
    GOOD,
    OTHER_SWARM,
    Case,
    completion_with,
    header_with,
)
from tests.protocol.craft import (
    MANIFEST,
    NOW_MS,
    pack,
    plain_header,
    signed,
    with_body,
)
from tests.protocol.edge_cases import batch_edges, content_edges, field_edges, frame_edges, header_edges
from tests.protocol.signature_cases import key_cases, replay_cases, signature_cases
from tests.protocol.torsion_cases import torsion_cases


def all_cases() -> list[Case]:
    """Every case, in the order of the rules."""
    cases = [
        *_framing(),
        *_header(),
        *header_edges(),
        *field_edges(),
        *_age(),
        *replay_cases(),
        *key_cases(),
        *signature_cases(),
        *torsion_cases(),
        *frame_cases(),
        *frame_edges(),
        *content_cases(),
        *content_edges(),
        *batch_edges(),
        *_accepted(),
    ]
    order = list(VERDICT_OF)
    return sorted(cases, key=lambda case: order.index(case.rule))


def _framing() -> Iterator[Case]:
    size_max = MANIFEST.limits.message_bytes_max
    yield Case("one byte too many", "message_size", GOOD + bytes(size_max + 1 - len(GOOD)))
    yield Case("nothing", "message_decode", b"")
    yield Case("shorter than the prefix", "message_decode", GOOD[:66])
    yield Case("another format", "message_decode", b"\x02" + GOOD[1:])
    yield Case("an empty header", "message_decode", signed(b"", BODY))
    yield Case("a header longer than the message", "message_decode", GOOD[:1] + b"\x02\x00" + GOOD[3:200])
    yield Case("a header above the limit", "message_decode", header_with(policy="x" * 512))


def _header() -> Iterator[Case]:
    good = pack(plain_header(BODY))
    for name, header_bytes in {
        "header is an array": pack([1, 2]),
        "header is cut": good[:-1],
        "header has a byte too many": good + b"\x00",
        "header has a key twice": b"\x8b" + good[1:] + pack("version") + pack(1),
        "header has integer keys": pack({1: 1}),
        "header holds an array in an array, 300 deep": b"\x91" * 300,
        "header declares 4 GiB of text": b"\x81\xdb\xff\xff\xff\xff",
        "header declares an array of 4 billion": b"\x81\xa1x\xdd\xff\xff\xff\xff",
        "header declares a map of 4 billion": b"\xdf\xff\xff\xff\xff",
        "header holds a map": b"\x81\xa7version\x80",
        "header holds an extension type": b"\x81\xa7version\xc7\x03\x05abc",
        "header holds an empty extension": b"\x81\xa7version\xc7\x00\x05",
        "header holds bytes that are no UTF-8": b"\x81\xa7version\xa2\xc3\x28",
        "header holds a surrogate in UTF-8": b"\x81\xa7version\xa3\xed\xa0\x80",
    }.items():
        yield Case(name, "header_decode", signed(header_bytes, BODY))
    for name, version in {
        "is missing": ...,
        "is 2": 2,
        "is true": True,
        "is 1.0": 1.0,
        "is text": "1",
    }.items():
        yield Case(f"version {name}", "version", header_with(version=version))
    for name, changes in {
        "a field is missing": {"policy": ...},
        "a field nobody knows": {"seed": 1},
        "author of 31 bytes": {"author": bytes(31)},
        "author as text": {"author": "x" * 32},
        "counter below 0": {"counter_first": -1},
        "counter above 2**53 - 1": {"counter_first": INTEGER_MAX + 1, "counter_last": INTEGER_MAX + 1},
        "counter true": {"counter_first": True},
        "time as a float": {"created_ms": float(NOW_MS)},
        "time nil": {"created_ms": None},
        "policy of 65 characters": {"policy": "x" * 65},
        "policy with an escape character": {"policy": "\x1b[31mred"},
        "policy ends in a line feed": {"policy": "tiny\n"},
        "policy not ASCII": {"policy": "naïve"},
        "digest of 33 bytes": {"body_sha256": bytes(33)},
        "swarm of 16 bytes": {"swarm": MANIFEST.digest[:16]},
        "body of size 0": {"body_size": 0},
    }.items():
        yield Case(name, "header_fields", header_with(**changes))
    yield Case("signed for another swarm", "swarm", header_with(swarm=OTHER_SWARM))
    yield Case("last before first", "counter_range", header_with(counter_first=41, counter_last=40))
    yield Case("nine counters where eight may be", "counter_range", header_with(counter_first=33))
    yield Case("only a header", "body_missing", signed(plain_header(BODY), None))
    yield Case("body cut short", "body_size", GOOD[:-1])
    yield Case("bytes behind the body", "body_size", GOOD + b"\x00")


def _age() -> Iterator[Case]:
    skew_ms, age_ms = MANIFEST.limits.skew_s_max * 1000, MANIFEST.limits.age_s_max * 1000
    yield Case("a millisecond too new", "age_future", header_with(created_ms=NOW_MS + skew_ms + 1))
    yield Case("from the end of time", "age_future", header_with(created_ms=INTEGER_MAX))
    yield Case("just not too new", "accepted", header_with(created_ms=NOW_MS + skew_ms), keeps="age_future")
    yield Case("created as it arrives", "accepted", header_with(created_ms=NOW_MS))
    yield Case("a millisecond too old", "age_stale", header_with(created_ms=NOW_MS - age_ms - 1))
    yield Case("from 1970", "age_stale", header_with(created_ms=0))
    yield Case("just not too old", "accepted", header_with(created_ms=NOW_MS - age_ms), keeps="age_stale")


def _accepted() -> Iterator[Case]:
    yield Case("plain", "accepted", GOOD)
    yield Case("compressed body", "accepted", with_body(COMPRESSED_BODY))
    yield Case("keys in another order", "accepted", signed(dict(reversed(plain_header(BODY).items())), BODY))
    yield Case("empty text", "accepted", completion_with(text=""))
    yield Case("control characters and NUL", "accepted", completion_with(text="\x00\x1b[31m\r\n"))
    yield Case("log-prob as an integer", "accepted", completion_with(logprob_sum=-2))
    yield Case("claims nil", "accepted", completion_with(logprob_sum=None, num_tokens=None))
