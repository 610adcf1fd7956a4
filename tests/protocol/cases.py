"""One message for every way to break (or just keep) a rule; `make_vectors` writes them down, the tests run them."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgpack
from nacl.bindings import crypto_core_ed25519_add

from swarmd.protocol.rules import VERDICT_OF, Verdict
from swarmd.protocol.types import INTEGER_MAX
from tests.protocol.craft import (
    ALICE,
    MALLORY,
    MANIFEST,
    NOW_MS,
    block,
    pack,
    plain_batch,
    plain_header,
    signed,
    stored_frame,
    with_body,
    with_content,
)

GOOD = with_content(plain_batch())
BODY = stored_frame(pack(plain_batch()))
OTHER_SWARM = bytes(32)
# The neutral point: under it anybody's signature verifies for implementations that do not look.
NEUTRAL_KEY = bytes([1]) + bytes(31)
# Order 8: added to a good key, it makes one with which implementations of Ed25519 disagree on some signatures.
TORSION_POINT = bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a")
# Made by zstd 1.5.7 at level 3 from the content of BODY. Only to be decoded: compressors differ.
COMPRESSED_BODY = bytes.fromhex(
    "28b52ffd600900550400340781a8726f6c6c6f7574739283a76461746173657400a7636f756e74657228ab636f6d706c6574696f6e73"
    "9284a474657874b23c616e737765723e303c2fa866696e6973686564c3ab6c6f6770726f625f73756dcbbff800aa6e756d5f746f6b65"
    "6e730782aa6e61c3af766520e29c93c201293108000c5001ec80308129e26b7947b82fae8dae5bf6"
)


@dataclass(frozen=True)
class Case:
    """A message, what came before it, and the rule it must end at."""

    name: str
    rule: str
    message: bytes
    before: list[bytes] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        return VERDICT_OF[self.rule]


def batch_with(change: Callable[[list[dict[str, Any]]], Any]) -> bytes:
    """A signed message whose rollouts were changed in place."""
    batch = copy.deepcopy(plain_batch())
    change(batch["rollouts"])
    return with_content(batch)


def completion_with(**changes: Any) -> bytes:
    """A signed message whose first completion has some fields changed (`...` removes one)."""

    def change(rollouts: list[dict[str, Any]]) -> None:
        completion = rollouts[0]["completions"][0] | changes
        rollouts[0]["completions"][0] = {k: v for k, v in completion.items() if v is not ...}

    return batch_with(change)


def header_with(**changes: Any) -> bytes:
    """A signed message whose header has some fields changed (`...` removes one)."""
    return with_body(BODY, **changes)


def all_cases() -> list[Case]:
    """Every case, in the order of the rules."""
    cases = [*_framing(), *_header(), *_age(), *_authorship(), *_body(), *_contents(), *_accepted()]
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
    yield Case("just not too new", "accepted", header_with(created_ms=NOW_MS + skew_ms))
    yield Case("a millisecond too old", "age_stale", header_with(created_ms=NOW_MS - age_ms - 1))
    yield Case("from 1970", "age_stale", header_with(created_ms=0))
    yield Case("just not too old", "accepted", header_with(created_ms=NOW_MS - age_ms))


def _authorship() -> Iterator[Case]:
    stolen = signed(plain_header(BODY, MALLORY), BODY, MALLORY)
    corrupt_body = GOOD[:-1] + bytes([GOOD[-1] ^ 1])
    corrupt_signature = GOOD[:3] + bytes([GOOD[3] ^ 1]) + GOOD[4:]
    scalar_order = 2**252 + 27742317777372353535851937790883648493
    scalar = (int.from_bytes(GOOD[35:67], "little") + scalar_order).to_bytes(32, "little")
    yield Case("a replay", "duplicate", GOOD, [GOOD])
    yield Case("a replay with another signature", "duplicate", corrupt_signature, [GOOD])
    yield Case("the author after a thief signed the same body", "accepted", GOOD, [stolen])
    yield Case(
        "the author after a forger sent the header with another body", "accepted", GOOD, [corrupt_body]
    )
    yield Case(
        "the author after a forger sent the header with another signature",
        "accepted",
        GOOD,
        [corrupt_signature],
    )
    yield Case("a thief signs another's body", "accepted", stolen, [GOOD])
    for name, key in {
        "the neutral point": NEUTRAL_KEY,
        "zero, a point of order 4": bytes(32),
        "no point": bytes([2]) + bytes(31),
        "outside the prime-order group": crypto_core_ed25519_add(ALICE.public_key, TORSION_POINT),
        "not canonical": b"\xee" + b"\xff" * 30 + b"\x7f",
    }.items():
        yield Case(f"key is {name}", "author_key", header_with(author=key))
    yield Case("one bit of the signature", "signature", corrupt_signature)
    yield Case("one bit of the header", "signature", GOOD.replace(b"tiny", b"tinx"))
    yield Case("scalar of the signature not reduced", "signature", GOOD[:35] + scalar + GOOD[67:])
    yield Case("signed by another than the author", "signature", signed(plain_header(BODY), BODY, MALLORY))
    yield Case("one bit of the body", "body_digest", corrupt_body)


def _body() -> Iterator[Case]:
    content, size_max = pack(plain_batch()), MANIFEST.limits.body_bytes_max
    skippable = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"
    for name, body in {
        "no zstd": content,
        "cut": BODY[:-1],
        "a byte behind the frame": BODY + b"\x00",
        "two frames": BODY + BODY,
        "an empty frame behind": BODY + stored_frame(b""),
        "a skippable frame behind": BODY + skippable,
        "a skippable frame before": skippable + BODY,
        "only a skippable frame": skippable,
        "an empty frame": stored_frame(b""),
        "declares a byte above the limit": stored_frame(
            b"", declared=size_max + 1, blocks=block(1, size_max + 1, b"x")
        ),
        "declares a byte too little": stored_frame(content, declared=len(content) - 1),
        "declares a byte too much": stored_frame(content, declared=len(content) + 1),
        "declares no size": b"\x28\xb5\x2f\xfd\x00\x58" + block(0, len(content), content),
        "wants a window of 16 MiB": b"\x28\xb5\x2f\xfd\x40\x70"
        + bytes([9, 0])
        + block(0, len(content), content),
        "wants a dictionary": b"\x28\xb5\x2f\xfd\x21\x07"
        + bytes([len(content) % 256])
        + block(0, len(content), content),
        "a bomb: 64 MiB from 2 KiB": stored_frame(
            b"", declared=4096, blocks=block(1, 131072, b"x", last=False) * 511 + block(1, 131072, b"x")
        ),
        "a bomb that says so": b"\x28\xb5\x2f\xfd\xa0\x00\x00\x00\x04"
        + block(1, 131072, b"x", last=False) * 511,
    }.items():
        yield Case(f"frame: {name}", "body_frame", with_body(body))
    text = pack(plain_batch()["rollouts"])
    for name, raw in {
        "array": text,
        "cut": content[:-1],
        "a byte too many": content + b"\xc0",
        "a key twice": b"\x82" + content[1:] + content[1:],
        "arrays, 2000 deep": b"\x81\xa8rollouts" + b"\x91" * 2000,
        "maps, 1000 deep": b"\x81\xa1x" * 1000,
        "declares 4 GiB of text": b"\x81\xa8rollouts\xdb\xff\xff\xff\xff",
        "declares 4 GiB of bytes": b"\x81\xa8rollouts\xc6\xff\xff\xff\xff",
        "declares an array of 4 billion": b"\x81\xa8rollouts\xdd\xff\xff\xff\xff",
        "an extension type": b"\x81\xa8rollouts\xc7\x03\x05abc",
        "a timestamp": b"\x81\xa8rollouts\xd6\xff\x00\x00\x00\x00",
        "the byte msgpack never uses": b"\xc1",
        "text that is no UTF-8": content.replace("ï".encode(), b"\xff\xff", 1),
        "a surrogate in UTF-8": content.replace("✓".encode(), b"\xed\xa0\x80", 1),
        "an array as a key": b"\x81\x90\xc0",
        "ten maps where nine can be": b"\x81\xa8rollouts\x99" + b"\x80" * 9,
    }.items():
        yield Case(f"content: {name}", "body_decode", with_content(raw))


def _contents() -> Iterator[Case]:
    for name, changes in {
        "text as bytes": {"text": b"x"},
        "text nil": {"text": None},
        "text missing": {"text": ...},
        "finished as 1": {"finished": 1},
        "a reward": {"reward": 1.0},
        "log-prob NaN": {"logprob_sum": float("nan")},
        "log-prob infinite": {"logprob_sum": float("-inf")},
        "log-prob beyond a billion": {"logprob_sum": -1.1e9},
        "log-prob true": {"logprob_sum": True},
        "log-prob as text": {"logprob_sum": "-1.5"},
        "tokens as a float": {"num_tokens": 7.0},
        "tokens true": {"num_tokens": True},
        "tokens below 0": {"num_tokens": -1},
        "tokens above 2**20": {"num_tokens": 2**20 + 1},
    }.items():
        yield Case(name, "body_fields", completion_with(**changes))
    for name, message in {
        "no rollouts field": with_content({}),
        "rollouts is a map": with_content({"rollouts": {}}),
        "another field": with_content(plain_batch() | {"author": ALICE.public_key}),
        "a rollout is nil": with_content({"rollouts": [None]}),
        "a key as bytes": with_content(msgpack.packb({b"rollouts": []}, use_bin_type=True)),
        "dataset true": batch_with(lambda rollouts: rollouts[0].update(dataset=True)),
        "dataset below 0": batch_with(lambda rollouts: rollouts[0].update(dataset=-1)),
        "counter as a float": batch_with(lambda rollouts: rollouts[0].update(counter=40.0)),
        "counter as text": batch_with(lambda rollouts: rollouts[0].update(counter="40")),
        "counter of 64 bits": batch_with(lambda rollouts: rollouts[0].update(counter=2**64 - 1)),
        "question text": batch_with(lambda rollouts: rollouts[0].update(question="1 + 1?")),
    }.items():
        yield Case(name, "body_fields", message)
    yield Case("no rollout", "rollouts_count", with_content({"rollouts": []}))
    yield Case(
        "three rollouts where two may be",
        "rollouts_count",
        batch_with(lambda rollouts: rollouts.append(rollouts[0] | {"completions": []})),
    )
    yield Case(
        "a dataset the swarm does not have",
        "dataset_range",
        batch_with(lambda rollouts: rollouts[0].update(dataset=2)),
    )
    yield Case(
        "below the header's range",
        "counter_outside",
        batch_with(lambda rollouts: rollouts[0].update(counter=39)),
    )
    yield Case(
        "above the header's range",
        "counter_outside",
        batch_with(lambda rollouts: rollouts[1].update(counter=42)),
    )
    yield Case(
        "one question twice",
        "counter_repeated",
        batch_with(lambda rollouts: rollouts[1].update(dataset=0, counter=40)),
    )
    yield Case(
        "no completion", "completions_count", batch_with(lambda rollouts: rollouts[1].update(completions=[]))
    )
    yield Case(
        "a single completion",
        "completions_count",
        batch_with(lambda rollouts: rollouts[1]["completions"].pop()),
    )
    yield Case(
        "four completions where three may be",
        "completions_count",
        batch_with(lambda rollouts: rollouts[1].update(completions=rollouts[1]["completions"] * 2)),
    )
    yield Case("65 bytes of text in 33 characters", "completion_size", completion_with(text="é" * 32 + "x"))


def _accepted() -> Iterator[Case]:
    yield Case("plain", "accepted", GOOD)
    yield Case("compressed body", "accepted", with_body(COMPRESSED_BODY))
    yield Case("no swarm named", "accepted", header_with(swarm=...))
    yield Case("swarm empty", "accepted", header_with(swarm=b""))
    yield Case("keys in another order", "accepted", signed(dict(reversed(plain_header(BODY).items())), BODY))
    yield Case("a range wider than used", "accepted", header_with(counter_first=36, counter_last=43))
    yield Case("integers wider than needed", "accepted", signed(_widened(pack(plain_header(BODY))), BODY))
    yield Case("64 bytes of text", "accepted", completion_with(text="é" * 32))
    yield Case("empty text", "accepted", completion_with(text=""))
    yield Case("control characters and NUL", "accepted", completion_with(text="\x00\x1b[31m\r\n"))
    yield Case("log-prob as an integer", "accepted", completion_with(logprob_sum=-2))
    yield Case("claims nil", "accepted", completion_with(logprob_sum=None, num_tokens=None))
    yield Case(
        "one counter, two datasets", "accepted", batch_with(lambda rollouts: rollouts[1].update(counter=40))
    )


def _widened(header_bytes: bytes) -> bytes:
    return header_bytes.replace(b"\xa7version\x01", b"\xa7version\xcd\x00\x01")
