"""Round trips, the bounds of splitting, and what the encoder promises the decoder."""

import contextlib
import gc
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarmd.protocol.manifest import Limits
from swarmd.protocol.rules import Verdict, validate
from swarmd.protocol.seen import Seen
from swarmd.protocol.signing import Identity
from swarmd.protocol.types import INTEGER_MAX, POLICY_NAME_MAX, Completion, Header, Rollout, RolloutBatch
from swarmd.protocol.wire import (
    HEADER_BYTES_RESERVED,
    WireError,
    decode_body,
    decode_header,
    encode_body,
    encode_header,
    encode_message,
    split,
)
from tests.protocol.craft import ALICE, MANIFEST, NOW_MS, plain_header

LIMITS = Limits()


def rollout(counter: int, *texts: str, dataset: int = 0) -> Rollout:
    return Rollout(
        dataset=dataset,
        counter=counter,
        completions=tuple(Completion(text=text, finished=True) for text in texts or ("a", "b")),
    )


def noise(rng: random.Random, size: int) -> str:
    """Text that no compressor shrinks by much."""
    return "".join(chr(rng.randrange(0x20, 0x7F)) for _ in range(size))


completions = st.builds(
    Completion,
    text=st.text(max_size=200),
    finished=st.booleans(),
    logprob_sum=st.none() | st.floats(-1e9, 1e9),
    num_tokens=st.none() | st.integers(0, 2**20),
)
rollouts = st.builds(
    Rollout,
    dataset=st.integers(0, 1023),
    counter=st.integers(0, INTEGER_MAX),
    completions=st.lists(completions, max_size=5).map(tuple),
)


@settings(deadline=None, derandomize=True)
@given(st.lists(rollouts, max_size=5))
def test_a_body_comes_back(some):
    batch = RolloutBatch(rollouts=tuple(some))
    assert decode_body(encode_body(batch), LIMITS) == batch


def test_an_absent_claim_is_absent_in_the_bytes():
    import zstandard

    content = zstandard.decompress(encode_body(RolloutBatch(rollouts=(rollout(0),))))
    assert b"logprob_sum" not in content
    assert b"num_tokens" not in content


@pytest.mark.parametrize("swarm", [b"", MANIFEST.digest])
def test_a_header_comes_back(swarm):
    header = Header(**plain_header(b"body", swarm=swarm))
    assert decode_header(encode_header(header)) == header


def test_the_largest_header_fits_into_what_split_reserves():
    changes: dict[str, Any] = dict.fromkeys(
        ("created_ms", "counter_first", "counter_last", "policy_version", "body_size"), INTEGER_MAX
    )
    header = Header(**plain_header(b"body", policy="x" * POLICY_NAME_MAX, **changes))
    assert len(encode_header(header)) <= HEADER_BYTES_RESERVED


@pytest.mark.parametrize("size", [0, 63, 65])
def test_a_signature_of_another_length_is_not_encoded(size):
    with pytest.raises(ValueError, match="64 bytes"):
        encode_message(b"header", bytes(size), None)


def test_a_wire_error_names_its_rule():
    with pytest.raises(WireError) as caught:
        decode_body(b"no zstd", LIMITS)
    assert caught.value.rule == "body_frame"


def test_what_fits_is_not_split():
    some = [rollout(counter) for counter in range(8)]
    assert split(some, LIMITS).batches == [RolloutBatch(rollouts=tuple(some))]


def test_nothing_is_split_into_nothing():
    assert split([], LIMITS) == ([], 0)


@pytest.mark.parametrize("seed", range(4))
def test_every_part_is_accepted_and_nothing_is_lost(seed):
    rng = random.Random(seed)
    limits = MANIFEST.limits.model_copy(update={"completion_bytes_max": 2000, "rollouts_max": 3})
    manifest = MANIFEST.model_copy(update={"limits": limits})
    some = [rollout(counter, *(noise(rng, rng.randrange(900)) for _ in range(3))) for counter in range(20)]

    parts = split(some, limits)

    assert parts.num_dropped == 0
    assert [r for batch in parts.batches for r in batch.rollouts] == some
    for batch in parts.batches:
        message = ALICE.seal(batch, created_ms=NOW_MS, policy="x" * 64, policy_version=INTEGER_MAX)
        assert len(message) <= limits.message_bytes_max
        outcome = validate(message, now_ms=NOW_MS, seen=Seen(), manifest=manifest)
        assert outcome.verdict is Verdict.ACCEPT, outcome.rule


@pytest.mark.parametrize(
    "bad",
    [
        rollout(1, "é" * 33, "b"),
        rollout(1, "only one"),
        rollout(1, *"four"),
        Rollout(dataset=0, counter=1, completions=()),
    ],
    ids=["long text", "one completion", "four completions", "no completion"],
)
def test_what_nobody_would_take_is_dropped_and_counted(bad):
    parts = split([rollout(0), bad, rollout(2)], MANIFEST.limits)
    assert parts.num_dropped == 1
    assert [r.counter for batch in parts.batches for r in batch.rollouts] == [0, 2]


def test_a_rollout_that_no_message_holds_is_dropped():
    rng = random.Random(0)
    limits = Limits(message_bytes_max=4096)
    assert split([rollout(0, noise(rng, 5000), "b")], limits) == ([], 1)


def test_a_rollout_too_large_when_decompressed_is_dropped():
    assert split([rollout(0, "a" * 16_000, "b")], Limits(body_bytes_max=8192)) == ([], 1)


def test_counters_far_apart_do_not_share_a_batch():
    parts = split([rollout(0), rollout(7), rollout(8)], MANIFEST.limits)
    assert [[r.counter for r in batch.rollouts] for batch in parts.batches] == [[0], [7, 8]]


def test_more_rollouts_than_any_batch_holds_are_split():
    some = [rollout(counter) for counter in range(1500)]
    parts = split(some, LIMITS)
    assert parts.num_dropped == 0
    assert max(len(batch.rollouts) for batch in parts.batches) <= LIMITS.rollouts_max


def test_an_identitys_messages_repeat():
    batch = RolloutBatch(rollouts=(rollout(0),))
    one, two = (
        Identity.from_seed(bytes(range(32))).seal(batch, created_ms=1, policy="p", policy_version=0)
        for _ in range(2)
    )
    assert one == two


@pytest.mark.parametrize("was_on", [True, False])
@pytest.mark.parametrize("body", [encode_body(RolloutBatch(rollouts=(rollout(1),))), b"no frame", b""])
def test_decoding_leaves_the_cycle_collector_as_it_was(body: bytes, was_on: bool) -> None:
    (gc.enable if was_on else gc.disable)()
    try:
        with contextlib.suppress(WireError):
            decode_body(body, LIMITS)
        assert gc.isenabled() == was_on
    finally:
        gc.enable()


@pytest.mark.parametrize(("num", "rule"), [(16_384, "accepted"), (16_385, "completion_size")])
@pytest.mark.parametrize("letter", ["x", "é", "✓", "🦀"])
def test_a_texts_bytes_are_counted_whatever_its_letters(letter: str, num: int, rule: str) -> None:
    text = letter * (num // len(letter.encode()))
    text += "x" * (num - len(text.encode()))
    data = ALICE.seal(
        RolloutBatch(rollouts=(rollout(1, text, "b"),)), created_ms=NOW_MS, policy="", policy_version=0
    )
    manifest = MANIFEST.model_copy(update={"limits": LIMITS})
    assert validate(data, now_ms=NOW_MS, seen=Seen(), manifest=manifest).rule == rule
