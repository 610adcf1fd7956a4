"""Standings in a file: what is written is read back, and nothing else is."""

import json
import random
from typing import Any

import pytest

from swarmd.protocol.signing import peer_id_of
from swarmd.trust.record import BYTES_MAX, decode_into, encode
from swarmd.trust.standing import BAN_S_MAX, Standings

AUTHOR, OTHER = b"a" * 32, b"b" * 32
NOW_S = 1_700_000_000.0


def some() -> Standings:
    one = Standings(proven_rollouts=2, ban_points=100.0)
    one.scored(AUTHOR, num_rollouts=3, num_informative=1, num_duplicate=2, num_copied=4)
    one.used(AUTHOR, num_used=5, num_left_out=2)
    one.accuse(OTHER, "signed_reject", NOW_S, num=5)
    one.accuse(AUTHOR, "forwarded_reject", NOW_S)
    one.ban(b"\x12\x20" + b"c" * 32, NOW_S, for_s=None, reason="said so ü\x1b[2J")
    return one


def read(data: bytes, *, now_s: float = NOW_S, authors_max: int = 4096) -> Standings:
    one = Standings(proven_rollouts=2, ban_points=100.0, authors_max=authors_max)
    decode_into(one, data, now_s)
    return one


def changed(part: str, **changes: Any) -> bytes:
    """A file with one wrong entry."""
    content = json.loads(encode(some(), NOW_S))
    content[part][0].update(changes)
    return json.dumps(content).encode()


def test_everything_is_read_back() -> None:
    one = some()
    again = read(encode(one, NOW_S))
    assert (again.by_author, again.bans) == (one.by_author, one.bans)
    assert list(again.by_author) == [OTHER, AUTHOR]


def test_a_file_of_an_earlier_build_is_read() -> None:
    content = json.loads(encode(some(), NOW_S))
    for author in content["authors"]:
        del author["num_used"], author["num_left_out"]
    assert read(json.dumps(content).encode()).proven(AUTHOR)


def test_bans_that_have_run_out_are_not_written() -> None:
    one = Standings(proven_rollouts=2)
    one.ban(AUTHOR, NOW_S, for_s=1.0, reason="")
    assert read(encode(one, NOW_S + 2)).bans == {}


def test_a_clock_that_was_wrong_bans_nobody_for_longer_than_a_day() -> None:
    one = Standings(proven_rollouts=2, ban_points=100.0)
    one.accuse(AUTHOR, "signed_reject", NOW_S + 10**9, num=5)
    again = read(encode(one, NOW_S))
    assert not again.banned(AUTHOR, NOW_S + BAN_S_MAX)


def test_more_authors_than_fit_are_the_latest() -> None:
    one = Standings(proven_rollouts=1)
    for number in range(10):
        one.scored(bytes([number]) * 32, num_rollouts=1)
    assert list(read(encode(one, NOW_S), authors_max=2).by_author) == [bytes([8]) * 32, bytes([9]) * 32]


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b"{}", b'{"version": 2, "authors": [], "bans": []}', b"\xff\xfe", b"[" * 100_000,
     b'{"version": 1, "authors": 3, "bans": []}', b'{"version": 1, "authors": [[]], "bans": []}', b" " * (BYTES_MAX + 1),
     b'{"version": 1, "authors": [], "bans": [{}]}'],
    ids=lambda data: repr(data[:20]),
)  # fmt: skip
def test_what_is_no_such_file_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        read(data)


@pytest.mark.parametrize(
    ("part", "changes"),
    [("authors", {"num_scored": -1}), ("authors", {"num_scored": 1.5}), ("authors", {"num_scored": True}),
     ("authors", {"points": float("nan")}), ("authors", {"points": float("inf")}), ("authors", {"points": "1"}),
     ("authors", {"peer_id": "me"}), ("authors", {"peer_id": None}), ("bans", {"until_s": "never"}),
     ("bans", {"by_operator": 1}), ("bans", {"reason": "x" * 1000}), ("bans", {"since_s": None}), ("bans", {"peer_id": ""})],
    ids=str,
)  # fmt: skip
def test_a_wrong_entry_is_refused(part: str, changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"belongs|peer id|by_operator"):
        read(changed(part, **changes))


@pytest.mark.parametrize("seed", range(200))
def test_a_damaged_file_is_read_or_refused_but_never_half(seed: int) -> None:
    rng, data = random.Random(seed), bytearray(encode(some(), NOW_S))
    for _ in range(rng.randrange(1, 5)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    one = Standings(proven_rollouts=2)
    try:
        decode_into(one, bytes(data), NOW_S)
    except ValueError:
        assert (one.by_author, one.bans) == ({}, {})


def test_a_person_can_read_it() -> None:
    assert peer_id_of(OTHER) in encode(some(), NOW_S).decode()
