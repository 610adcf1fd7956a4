"""Frames: any split of the bytes gives the same messages, and a wrong length is noticed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmd.errors import LocalError
from swarmd.processes.frames import FRAME_BYTES_MAX, FrameReader, encode_frame


@given(st.lists(st.dictionaries(st.text(max_size=5), st.binary(max_size=40)), max_size=5), st.integers(1, 7))
def test_any_split_of_the_bytes_gives_the_same_messages(messages: list[dict[str, bytes]], step: int) -> None:
    data = b"".join(encode_frame(m) for m in messages)
    reader = FrameReader(dict)
    received = [m for i in range(0, len(data), step) for m in reader.feed(data[i : i + step])]
    assert received == messages


def test_a_length_out_of_bounds_is_refused_before_it_is_waited_for() -> None:
    with pytest.raises(LocalError, match="announced a frame"):
        FrameReader(dict).feed((FRAME_BYTES_MAX + 1).to_bytes(4, "big"))


def test_a_message_over_the_limit_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarmd.processes.frames.FRAME_BYTES_MAX", 10)
    with pytest.raises(LocalError, match="too large"):
        encode_frame({"data": b"x" * 20})
