"""Standings in a file: what is written is read back, and nothing else is."""

import json
import random
from typing import Any

import pytest

from swarmd.files.checked import NewerVersion, encode_checked
from swarmd.protocol.signing import peer_id_of
from swarmd.trust.offences import BAN_S_MAX
from swarmd.trust.standing import KNOWN_MAX, NEW_MAX, OPERATOR_BANS_MAX, REASON_CHARS_MAX, Standings
from swarmd.trust.standings_file import (
    BYTES_MAX,
    VERSION,
    decode_bans,
    decode_into,
    encode,
    encode_bans,
    rows_of,
)

AUTHOR, OTHER, NEWCOMER = b"a" * 32, b"b" * 32, b"n" * 32
NOW_S = 1_700_000_000.0


def some() -> Standings:
    one = Standings(proven_rollouts=2, ban_points=100.0)
    one.scored(AUTHOR, num_rollouts=3, proof=2.25, num_informative=1, num_duplicate=2, num_copied=4)
    one.used(AUTHOR, num_used=5, num_left_out=2)
    one.scored(NEWCOMER, num_rollouts=1)
    one.accuse(OTHER, "signed_reject", NOW_S, num=5)
    one.accuse(AUTHOR, "forwarded_reject", NOW_S)
    one.ban(b"\x12\x20" + b"c" * 32, NOW_S, for_s=None, reason="said so ü\x1b[2J")
    return one


def read(data: bytes, *, now_s: float = NOW_S) -> Standings:
    one = Standings(proven_rollouts=2, ban_points=100.0)
    decode_into(one, data, now_s)
    return one


def changed(part: str, **changes: Any) -> bytes:
    """A file with one wrong entry."""
    content = json.loads(encode(rows_of(some(), NOW_S)))
    content[part][0].update(changes)
    del content["sha256"], content["version"]
    return encode_checked(VERSION, content)


def test_everything_is_read_back() -> None:
    one = some()
    again = read(encode(rows_of(one, NOW_S)))
    assert (again.known, again.new, again.offences, again.bans) == (
        one.known,
        one.new,
        one.offences,
        one.bans,
    )
    assert [list(again.known), list(again.new)] == [[AUTHOR], [NEWCOMER]]
    assert list(again.offences.by_peer) == [OTHER, AUTHOR]


def test_fewer_scored_rollouts_may_be_wanted_at_the_next_start() -> None:
    one = Standings(proven_rollouts=1)
    decode_into(one, encode(rows_of(some(), NOW_S)), NOW_S)
    assert (one.proven(AUTHOR), one.proven(NEWCOMER)) == (True, True)


def test_bans_that_have_run_out_are_not_written() -> None:
    one = Standings(proven_rollouts=2)
    one.ban(AUTHOR, NOW_S, for_s=1.0, reason="")
    assert read(encode(rows_of(one, NOW_S + 2))).bans == {}


def test_a_clock_that_was_wrong_bans_nobody_for_longer_than_a_day() -> None:
    one = Standings(proven_rollouts=2, ban_points=100.0)
    one.accuse(AUTHOR, "signed_reject", NOW_S + 10**9, num=5)
    again = read(encode(rows_of(one, NOW_S)))
    assert not again.banned(AUTHOR, NOW_S + BAN_S_MAX)


def test_full_tables_fit_the_file() -> None:
    one = Standings(proven_rollouts=1, ban_points=100.0)
    for number in range(KNOWN_MAX + NEW_MAX):
        one.scored(number.to_bytes(32, "big"), num_rollouts=number % 4)
    for number in range(OPERATOR_BANS_MAX):
        one.ban(number.to_bytes(32, "big"), NOW_S, for_s=None, reason="\U0001f41d" * REASON_CHARS_MAX)
    for number in range(OPERATOR_BANS_MAX, 3 * OPERATOR_BANS_MAX):
        one.accuse(number.to_bytes(32, "big"), "forwarded_reject", NOW_S, num=10)
    data, bans = encode(rows_of(one, NOW_S)), encode_bans(rows_of(one, NOW_S))
    assert max(len(data), len(bans)) <= BYTES_MAX
    assert read(data).bans == one.bans
    assert len(decode_bans(bans)) == OPERATOR_BANS_MAX


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b"{}", b"\xff\xfe", b"[" * 100_000, b" " * (BYTES_MAX + 1),
     b'{"version": 2, "authors": [], "offenders": [], "bans": []}', b'{"version": 3, "authors": [], "bans": []}',
     b'{"version": 3, "authors": 3, "offenders": [], "bans": []}',
     b'{"version": 3, "authors": [[]], "offenders": [], "bans": []}',
     b'{"version": 3, "authors": [], "offenders": [], "bans": [{}]}',
     b'{"version": 4, "authors": [], "offenders": [], "bans": []}', b'{"version": 5}',
     b'{"version": [], "authors": [], "offenders": [], "bans": []}'],
    ids=lambda data: repr(data[:20]),
)  # fmt: skip
def test_what_is_no_such_file_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        read(data)


@pytest.mark.parametrize(
    ("part", "changes"),
    [("authors", {"proof": -1}), ("authors", {"proof": "1"}), ("authors", {"proof": float("nan")}),
     ("authors", {"num_scored": -1}), ("authors", {"num_scored": 1.5}), ("authors", {"num_scored": True}),
     ("offenders", {"points": float("nan")}), ("offenders", {"points": float("inf")}), ("offenders", {"points": "1"}),
     ("authors", {"peer_id": "me"}), ("authors", {"peer_id": None}),
     ("offenders", {"num_bans": 1.0}), ("bans", {"until_s": "never"}),
     ("bans", {"by_operator": 1}), ("bans", {"reason": "x" * 1000}), ("bans", {"since_s": None}), ("bans", {"peer_id": ""})],
    ids=str,
)  # fmt: skip
def test_a_wrong_entry_is_refused(part: str, changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"belong|peer id|not the standings"):
        read(changed(part, **changes))


@pytest.mark.parametrize("seed", range(200))
def test_a_damaged_file_is_refused_and_nothing_is_taken_of_it(seed: int) -> None:
    rng, data = random.Random(seed), bytearray(encode(rows_of(some(), NOW_S)))
    for _ in range(rng.randrange(1, 5)):
        data[rng.randrange(len(data))] ^= rng.randrange(1, 256)
    one = Standings(proven_rollouts=2)
    with pytest.raises(ValueError) as refused:
        decode_into(one, bytes(data), NOW_S)
    assert not isinstance(refused.value, NewerVersion)
    assert (one.num_authors, one.offences.by_peer, one.bans) == (0, {}, {})


def test_a_file_of_a_version_that_had_no_checksum_is_read() -> None:
    content = {**json.loads(encode(rows_of(some(), NOW_S))), "version": 3}
    del content["sha256"]
    assert read(json.dumps(content).encode()).bans == some().bans


def test_a_later_programs_file_is_told_from_a_damaged_one() -> None:
    with pytest.raises(NewerVersion, match="has version 5, this program reads up to 4"):
        read(encode_checked(5, {"people": {}}))


def test_the_file_of_bans_has_the_operators_only() -> None:
    one = some()
    bans = decode_bans(encode_bans(rows_of(one, NOW_S)))
    assert bans == {peer: ban for peer, ban in one.bans.items() if ban.by_operator}
    points = [ban for ban in json.loads(encode(rows_of(one, NOW_S)))["bans"] if not ban["by_operator"]]
    with pytest.raises(ValueError, match="not the operator's"):
        decode_bans(encode_checked(1, {"bans": points}))


def test_a_person_can_read_it() -> None:
    assert peer_id_of(OTHER) in encode(rows_of(some(), NOW_S)).decode()
