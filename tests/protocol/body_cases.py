"""Messages whose body, correctly signed, breaks a rule."""

from collections.abc import Iterator

from tests.protocol.case import (
    BODY,
    COMPRESSED_BODY,
    COMPRESSED_BOMB,
    Case,
    batch_with,
    completion_with,
    declaring,
)
from tests.protocol.craft import (
    ALICE,
    MANIFEST,
    block,
    checksummed,
    pack,
    plain_batch,
    stored_frame,
    with_body,
    with_content,
)


def frame_cases() -> Iterator[Case]:
    """Bodies that cannot be opened or read."""
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
    yield from damaged_cases()
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
        "an empty extension": b"\x81\xa8rollouts\xc7\x00\x05",
        "a timestamp": b"\x81\xa8rollouts\xd6\xff\x00\x00\x00\x00",
        "the byte msgpack never uses": b"\xc1",
        "text that is no UTF-8": content.replace("ï".encode(), b"\xff\xff", 1),
        "a surrogate in UTF-8": content.replace("✓".encode(), b"\xed\xa0\x80", 1),
        "bytes as a key": b"\x81\xc4\x08rollouts\x90",
        "an array as a key": b"\x81\x90\xc0",
        "ten maps where nine can be": b"\x81\xa8rollouts\x99" + b"\x80" * 9,
    }.items():
        yield Case(f"content: {name}", "body_decode", with_content(raw))


def damaged_cases() -> Iterator[Case]:
    """Frames in order, whose blocks are not."""
    content = pack(plain_batch())
    summed = checksummed(content)
    for name, body in {
        "another checksum": summed[:-1] + bytes([summed[-1] ^ 1]),
        "a compressed block of one byte": stored_frame(content, blocks=block(2, 1, b"x")),
        "compressed content cut in its sequences": COMPRESSED_BODY[:-1] + b"\x00",
        "declares a byte less than compressed blocks hold": declaring(COMPRESSED_BODY, -1),
        "declares a byte more than compressed blocks hold": declaring(COMPRESSED_BODY, 1),
        "a bomb: compressed blocks of 1 MiB where 4096 bytes are declared": COMPRESSED_BOMB,
    }.items():
        yield Case(f"blocks: {name}", "body_blocks", with_body(body))
    yield Case("blocks: with its checksum", "accepted", with_body(summed), keeps="body_blocks")
    yield Case("blocks: compressed", "accepted", with_body(COMPRESSED_BODY), keeps="body_blocks")


def content_cases() -> Iterator[Case]:
    """Bodies that hold what they must not."""
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
