"""Cutting frames: pure."""

import pytest

from swarmd.swarm.hardening.rpc_frames import FrameBuffer, Misframed


def frames(*chunks: bytes, limit: int = 300) -> list[bytes]:
    buffer = FrameBuffer(limit)
    return [frame for chunk in chunks for frame in buffer.feed(chunk)]


def test_frames_come_out_whole_however_the_bytes_come_in():
    stream = b"\x01a" + b"\x00" + b"\xac\x02" + b"b" * 300
    assert frames(stream) == frames(*(bytes([byte]) for byte in stream)) == [b"a", b"", b"b" * 300]


@pytest.mark.parametrize(
    "prefix", [b"\xad\x02", b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x80", b"\xff" * 12]
)
def test_an_overlong_or_excessive_length_is_refused(prefix):
    with pytest.raises(Misframed):
        frames(prefix)


def test_an_unfinished_frame_waits():
    assert frames(b"\x05hell") == []


def test_frames_before_the_bad_one_are_kept():
    fed = FrameBuffer(300).feed(b"\x01a\xff\xff\xff\xff\x0f")
    assert next(fed) == b"a"
    with pytest.raises(Misframed):
        next(fed)
