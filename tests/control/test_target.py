"""Targets: what a path and a query are, and what is neither."""

import pytest

from swarmd.control.target import FIELDS_MAX, TARGET_BYTES_MAX, BadTarget, Target, parse_target


@pytest.mark.parametrize(
    ("raw", "path", "query"),
    [
        (b"/", "/", {}),
        (b"//[", "//[", {}),
        (b"/metrics?", "/metrics", {}),
        (b"/a?b=c&d=%20e+f", "/a", {"b": "c", "d": " e f"}),
        (b"/%6detrics", "/metrics", {}),
        (b"/a%3Fb=c", "/a?b=c", {}),
        (b"/a?b%26c=d%3De", "/a", {"b&c": "d=e"}),
        (b"/a?b=c=d", "/a", {"b": "c=d"}),
        (b"/a?b&&=c", "/a", {"b": "", "": "c"}),
        (b"/a?b=%C3%A9", "/a", {"b": "é"}),
        (b"/a?b=%2541", "/a", {"b": "%41"}),
        (b"/a/../b;c", "/a/../b;c", {}),
    ],
)
def test_a_path_and_its_fields(raw: bytes, path: str, query: dict[str, str]) -> None:
    assert parse_target(raw) == Target(path, query)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"*",
        b"metrics",
        b"http://127.0.0.1/metrics",
        b"127.0.0.1:80",
        b"/a#b",
        b"/a b",
        b"/a\x00",
        b"/a\x7f",
        b"/\xc3\xa9",
        b"/a\n",
    ],
)
def test_other_forms_and_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(BadTarget, match="visible ASCII"):
        parse_target(raw)


@pytest.mark.parametrize("escape", [b"%", b"%4", b"%zz", b"%4z", b"% 4", b"%+4", b"%%41", b"%u0041"])
@pytest.mark.parametrize("place", [b"/?a=*", b"/?*=a", b"/*"])
def test_an_escape_without_its_digits_is_refused(place: bytes, escape: bytes) -> None:
    with pytest.raises(BadTarget):
        parse_target(place.replace(b"*", escape))


@pytest.mark.parametrize(
    "escape", [b"%00", b"%0A", b"%1b%5B2J", b"%7f", b"%c2%9b", b"%ff", b"%c0%80", b"%ed%a0%80"]
)
@pytest.mark.parametrize("place", [b"/?a=*", b"/?*=a", b"/*"])
def test_an_escape_that_stands_for_no_text_is_refused(place: bytes, escape: bytes) -> None:
    with pytest.raises(BadTarget, match="an escape in the target"):
        parse_target(place.replace(b"*", escape))


def test_a_field_is_named_once() -> None:
    with pytest.raises(BadTarget, match="twice"):
        parse_target(b"/?a=1&%61=2")


@pytest.mark.parametrize(("num", "bad"), [(FIELDS_MAX, False), (FIELDS_MAX + 1, True)])
def test_fields_are_bounded(num: int, bad: bool) -> None:
    raw = b"/?" + b"&".join(b"f%d" % number for number in range(num))
    if bad:
        with pytest.raises(BadTarget, match=f"{FIELDS_MAX} fields"):
            parse_target(raw)
    else:
        assert len(parse_target(raw).query) == num


@pytest.mark.parametrize(("size", "bad"), [(TARGET_BYTES_MAX, False), (TARGET_BYTES_MAX + 1, True)])
def test_targets_are_bounded(size: int, bad: bool) -> None:
    raw = b"/".ljust(size, b"x")
    if bad:
        with pytest.raises(BadTarget, match=f"{TARGET_BYTES_MAX} bytes"):
            parse_target(raw)
    else:
        assert len(parse_target(raw).path) == size


def test_what_is_wrong_is_said_without_the_senders_words() -> None:
    with pytest.raises(BadTarget) as caught:
        parse_target(b"/%zz<script>")
    assert "script" not in str(caught.value)
