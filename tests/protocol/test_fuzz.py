"""Fuzz behind the signature: mangle what is inside, then sign it. No exception, nothing malformed accepted, nothing good refused.

What is expected comes from the `second` reader, which shares no code with the rules: both must name the same rule.
"""

import copy
from typing import Any

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
from tests.protocol.second import judge as second

CONTENT = pack(plain_batch())
FUZZ = settings(max_examples=400, deadline=None, derandomize=True)


def judge(message: bytes) -> Outcome:
    outcome = validate(message, now_ms=NOW_MS, seen=Seen(), manifest=MANIFEST)
    assert outcome.rule != "internal", outcome.detail
    assert len(outcome.detail) < 300
    return outcome


def expected(message: bytes) -> str:
    return second.judge(message, NOW_MS, set(), MANIFEST.to_bytes(), lambda *_: True)


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
def test_noise_is_refused(data):
    assert judge(data).rule == expected(data) in ("message_decode", "header_decode", "version")


@FUZZ
@given(mangled_bytes(GOOD))
def test_a_mangled_message_is_not_accepted(data):
    assert (judge(data).verdict is Verdict.ACCEPT) == (data == GOOD)


@FUZZ
@given(mangled_tree(plain_batch()))
@example({"rollouts": [{"dataset": 0, "counter": 40, "completions": []}]})
def test_both_readers_agree_on_signed_content(content):
    message = with_content(content)
    assert judge(message).rule == expected(message)


@FUZZ
@given(mangled_bytes(CONTENT))
def test_both_readers_agree_on_signed_msgpack(content):
    message = with_content(content)
    assert judge(message).rule == expected(message)


@FUZZ
@given(mangled_bytes(BODY))
def test_both_readers_agree_on_signed_frames(body):
    message = with_body(body)
    assert judge(message).rule == expected(message)


@FUZZ
@given(mangled_bytes(COMPRESSED_BODY))
def test_both_readers_agree_on_signed_compression_but_for_what_is_damaged(body):
    message = with_body(body)
    rule = expected(message)
    assert judge(message).rule == rule or rule == "body_blocks"  # where libzstd takes more: proto/RULES.md


@FUZZ
@given(mangled_tree(plain_header(BODY)))
def test_both_readers_agree_on_signed_headers(header):
    message = signed(header if isinstance(header, dict) else pack(header), BODY)
    rule = judge(message).rule
    # `expected` takes every signature for good; another author's is not.
    assert rule == expected(message) or (rule == "signature" and header["author"] != ALICE.public_key)


@FUZZ
@given(mangled_bytes(pack(plain_header(BODY))))
def test_both_readers_agree_on_signed_header_bytes(header_bytes):
    message = signed(header_bytes, BODY)
    rule = judge(message).rule
    assert rule == expected(message) or (rule == "signature" and ALICE.public_key not in header_bytes)
