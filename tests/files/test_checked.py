"""Documents with a checksum: every change of a byte is found, and a later version is not taken for damage."""

import json
import random

import pytest

from swarmd.files.checked import NewerVersion, decode_checked, encode_checked

CONTENT = {"list": [1, 2.5, "ü"], "table": {"a": None}}
DATA = encode_checked(3, CONTENT)


def test_what_is_written_is_read_and_is_plain_json() -> None:
    assert decode_checked(DATA, 3) == json.loads(DATA)
    assert decode_checked(DATA, 3)["list"] == CONTENT["list"]


@pytest.mark.parametrize("bit", range(8 * len(DATA)))
def test_every_single_bit_counts(bit: int) -> None:
    data = (int.from_bytes(DATA) ^ 1 << bit).to_bytes(len(DATA))
    with pytest.raises(ValueError) as refused:
        decode_checked(data, 3, unchecked=2)
    assert not isinstance(refused.value, NewerVersion)


@pytest.mark.parametrize("seed", range(50))
def test_what_is_cut_or_longer_is_refused(seed: int) -> None:
    cut = random.Random(seed).randrange(len(DATA))
    for data in (DATA[:cut], DATA + DATA[cut:], DATA[cut:], DATA[:cut] + b"\0" * (len(DATA) - cut)):
        with pytest.raises(ValueError):
            decode_checked(data, 3)


@pytest.mark.parametrize("data", [encode_checked(4, {}), b'{"version": 4}', b'{"version": 9, "else": 1}'])
def test_a_later_version_is_told(data: bytes) -> None:
    with pytest.raises(NewerVersion, match="this program reads up to 3"):
        decode_checked(data, 3)


def test_the_last_version_without_a_checksum_is_read_where_it_is_allowed() -> None:
    assert decode_checked(b'{"version": 2, "a": 1}', 3, unchecked=2)["a"] == 1
    for data in (b'{"version": 2}', b'{"version": 3}', b'{"version": 1}', encode_checked(2, {})):
        with pytest.raises(ValueError, match="this program reads 3 with its SHA-256"):
            decode_checked(data, 3)


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"null", b"{}", b"[" * 100_000, b"\xff", b'{"version": true}', b'{"version": "3"}']
)
def test_what_is_no_such_document_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        decode_checked(data, 3)
