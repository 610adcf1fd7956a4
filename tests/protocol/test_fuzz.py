"""Fuzz behind the signature: mangle what is inside, then sign it. No exception, nothing malformed accepted, nothing good refused.

What is expected of each structure comes from `oracle`, which shares no code with the rules.
"""

import copy
import hashlib
from typing import Any

import msgpack
from hypothesis import example, given, settings
from hypothesis import strategies as st

from swarmd.protocol.rules import Outcome, Verdict, validate
from swarmd.protocol.seen import Seen
from tests.protocol.case import BODY, COMPRESSED_BODY, GOOD
from tests.protocol.craft import (
    ALICE,
    MANIFEST,
    NOW_MS,
    pack,
    plain_batch,
    plain_header,
    signed,
    with_body,
    with_content,
)
from tests.protocol.oracle import is_good_content, is_good_header

CONTENT = pack(plain_batch())
FUZZ = settings(max_examples=400, deadline=None, derandomize=True)


def judge(message: bytes) -> Outcome:
    outcome = validate(message, now_ms=NOW_MS, seen=Seen(), manifest=MANIFEST)
    assert outcome.rule != "internal", outcome.detail
    assert len(outcome.detail) < 300
    return outcome


def is_accepted(message: bytes) -> bool:
    return judge(message).verdict is Verdict.ACCEPT


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.integers(-3, 70),
    st.floats(),
    st.text(max_size=80),
    st.binary(max_size=70),
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.sampled_from(["text", "finished", "dataset", "counter", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@st.composite
def mangled_bytes(draw: st.DrawFn, good: bytes) -> bytes:
    """A few bytes changed, cut out, doubled or put in."""
    data = bytearray(good)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(0, len(data) - 1)))
        length = draw(st.integers(0, 6))
        data[place : place + length] = draw(st.binary(max_size=6))
    return bytes(data)


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values inside a tree."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(found for key, value in items for found in places(value, (*path, key)))]


@st.composite
def mangled_tree(draw: st.DrawFn, good: dict[str, Any]) -> Any:
    """One or two values of the tree replaced, removed, or joined by a new one."""
    tree = {"root": copy.deepcopy(good)}
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(places(tree)[1:]))
        holder: Any = tree
        for key in path[:-1]:
            holder = holder[key]
        action = draw(st.sampled_from(["replace", "remove", "double", "add"]))
        if action == "remove" and len(path) > 1:
            del holder[path[-1]]
        elif action == "double" and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[path[-1]]))
        elif action == "add" and isinstance(holder, dict) and len(path) > 1:
            holder[draw(st.sampled_from(["x", "reward", "swarm", "num_tokens"]))] = draw(values)
        else:
            holder[path[-1]] = draw(values)
    return tree["root"]


@FUZZ
@given(st.binary(max_size=600))
def test_noise_is_not_accepted(data):
    assert not is_accepted(data)


@FUZZ
@given(mangled_bytes(GOOD))
def test_a_mangled_message_is_not_accepted(data):
    assert is_accepted(data) == (data == GOOD)


@FUZZ
@given(mangled_tree(plain_batch()))
@example({"rollouts": [{"dataset": 0, "counter": 40, "completions": []}]})
def test_signed_content_is_accepted_exactly_when_well_formed(content):
    assert is_accepted(with_content(content)) == is_good_content(content, 40, 41, MANIFEST)


@FUZZ
@given(mangled_bytes(CONTENT))
def test_signed_mangled_msgpack_is_accepted_only_when_well_formed(content):
    if is_accepted(with_content(content)):
        assert is_good_content(msgpack.unpackb(content), 40, 41, MANIFEST)


@FUZZ
@given(mangled_bytes(COMPRESSED_BODY))
def test_signed_mangled_frames_are_accepted_only_when_well_formed(body):
    outcome = judge(with_body(body))
    if outcome.batch is not None:
        content = outcome.batch.batch.model_dump(mode="json", exclude_none=True)
        assert is_good_content(content, 40, 41, MANIFEST)


@FUZZ
@given(mangled_tree(plain_header(BODY)))
def test_a_signed_header_is_accepted_exactly_when_well_formed(header):
    good = is_good_header(header, hashlib.sha256(BODY).digest(), len(BODY), ALICE.public_key, MANIFEST)
    assert is_accepted(signed(header if isinstance(header, dict) else pack(header), BODY)) == good


@FUZZ
@given(mangled_bytes(pack(plain_header(BODY))))
def test_signed_mangled_header_bytes_are_accepted_only_when_well_formed(header_bytes):
    if len(header_bytes) < 65_536 and is_accepted(signed(header_bytes, BODY)):
        header = msgpack.unpackb(header_bytes)
        assert is_good_header(header, hashlib.sha256(BODY).digest(), len(BODY), ALICE.public_key, MANIFEST)
