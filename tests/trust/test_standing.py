"""Standings: who is proven, how points come and go, how long bans last, and that no flood pushes anybody out."""

import pytest

from swarmd.trust.offences import BAN_FORGOTTEN_S, BAN_S, BAN_S_MAX, OFFENDERS_MAX, ban_length_s
from swarmd.trust.standing import KNOWN_MAX, NEW_MAX, OPERATOR_BANS_MAX, USED_MAX, Standings

AUTHOR, OTHER = b"a" * 32, b"b" * 32
NOW_S = 1_700_000_000.0


def standings() -> Standings:
    return Standings(proven_rollouts=32, ban_points=100.0)


def identity(number: int) -> bytes:
    return number.to_bytes(32, "big")


def prove(one: Standings, author: bytes) -> None:
    one.scored(author, num_rollouts=32)


def banned_by_points(one: Standings, now_s: float, author: bytes = AUTHOR) -> float:
    """Accuse until there is a ban; how long it lasts."""
    for _ in range(100):
        if (ban := one.accuse(author, "signed_reject", now_s)) is not None:
            assert ban.until_s is not None
            return ban.until_s - now_s
    raise AssertionError("never banned")


def test_an_unknown_author_is_unproven_and_free() -> None:
    one = standings()
    assert (one.proven(AUTHOR), one.banned(AUTHOR, NOW_S), one.of(AUTHOR)) == (False, False, None)


def test_an_author_is_proven_by_its_own_scored_rollouts() -> None:
    one = standings()
    one.scored(AUTHOR, num_rollouts=31)
    before = one.proven(AUTHOR)
    one.scored(AUTHOR, num_rollouts=1)
    assert (before, one.proven(AUTHOR), one.proven(OTHER)) == (False, True, False)


def test_neither_duplicates_nor_copies_prove_anybody() -> None:
    one = standings()
    one.scored(AUTHOR, num_rollouts=0, num_duplicate=100, num_copied=100)
    assert not one.proven(AUTHOR)


def test_an_author_whose_text_is_left_out_is_not_proven_until_it_is_trained_on_again() -> None:
    one = standings()
    prove(one, AUTHOR)
    one.used(AUTHOR, num_used=7, num_left_out=7)
    few = one.proven(AUTHOR), one.left_out(AUTHOR)
    one.used(AUTHOR, num_used=1, num_left_out=1)
    most = one.proven(AUTHOR), one.left_out(AUTHOR)
    one.used(AUTHOR, num_used=8, num_left_out=0)
    half = one.proven(AUTHOR), one.left_out(AUTHOR)
    assert (few, most, half) == ((True, False), (False, True), (True, False))


def test_also_an_author_who_is_not_proven_may_be_left_out() -> None:
    one = standings()
    one.used(AUTHOR, num_used=8, num_left_out=5)
    assert one.left_out(AUTHOR)
    assert not one.left_out(b"nobody")


def test_what_was_left_out_long_ago_is_forgotten() -> None:
    one = standings()
    prove(one, AUTHOR)
    for _ in range(1000):
        one.used(AUTHOR, num_used=1, num_left_out=1)
    rounds = 0
    while not one.proven(AUTHOR):
        one.used(AUTHOR, num_used=1, num_left_out=0)
        rounds += 1
    assert 0 < rounds <= USED_MAX


def test_enough_evidence_is_a_ban_and_one_less_is_none() -> None:
    one = standings()
    bans = [one.accuse(AUTHOR, "forwarded_reject", NOW_S) for _ in range(10)]
    assert [ban is not None for ban in bans] == [False] * 9 + [True]
    assert one.banned(AUTHOR, NOW_S)
    assert not one.banned(OTHER, NOW_S)


def test_evidence_that_came_together_counts_as_often() -> None:
    assert standings().accuse(AUTHOR, "forwarded_reject", NOW_S, num=10) is not None


def test_points_halve() -> None:
    one = standings()
    one.accuse(AUTHOR, "signed_reject", NOW_S)
    assert [one.offences.points(AUTHOR, NOW_S + s) for s in (0, 600, 1200)] == [20.0, 10.0, 5.0]


def test_a_rare_mistake_never_adds_up_to_a_ban() -> None:
    one = standings()
    assert not any(one.accuse(AUTHOR, "forwarded_reject", NOW_S + 600 * n) for n in range(1000))


def test_a_clock_that_is_set_back_makes_no_points() -> None:
    one = standings()
    one.accuse(AUTHOR, "signed_reject", NOW_S)
    assert one.offences.points(AUTHOR, NOW_S - 86_400) == 20.0


def test_a_ban_ends_by_itself_and_begins_again_from_no_points() -> None:
    one = standings()
    banned_by_points(one, NOW_S)
    assert [one.banned(AUTHOR, NOW_S + s) for s in (BAN_S - 1, BAN_S)] == [True, False]
    assert one.offences.points(AUTHOR, NOW_S + BAN_S) == 0.0


def test_each_ban_is_twice_as_long_up_to_a_day() -> None:
    one, now_s, lengths_s = standings(), NOW_S, []
    for _ in range(12):
        lengths_s.append(banned_by_points(one, now_s))
        now_s += lengths_s[-1]
    assert lengths_s[:3] == [BAN_S, 2 * BAN_S, 4 * BAN_S]
    assert lengths_s[-1] == BAN_S_MAX


def test_earlier_bans_are_forgotten_day_by_day() -> None:
    one = standings()
    first_s = banned_by_points(one, NOW_S)
    second_s = banned_by_points(one, NOW_S + first_s)
    later_s = NOW_S + first_s + second_s + BAN_FORGOTTEN_S
    assert banned_by_points(one, later_s) == 2 * BAN_S  # of two, one is forgotten
    assert banned_by_points(one, later_s + 30 * BAN_FORGOTTEN_S) == BAN_S


@pytest.mark.parametrize("num_before", [0, 1, 8, 9, 50, 10**6])
def test_a_ban_has_a_length_whatever_came_before(num_before: int) -> None:
    assert BAN_S <= ban_length_s(num_before) <= BAN_S_MAX


def test_while_banned_more_evidence_makes_no_second_ban() -> None:
    one = standings()
    banned_by_points(one, NOW_S)
    assert one.accuse(AUTHOR, "signed_reject", NOW_S + 1, num=1000) is None


def test_bans_for_points_can_be_switched_off() -> None:
    one = Standings(proven_rollouts=32, ban_points=None)
    assert one.accuse(AUTHOR, "signed_reject", NOW_S, num=10**6) is None


def test_the_operators_ban_lasts_until_lifted() -> None:
    one = standings()
    one.ban(AUTHOR, NOW_S, for_s=None, reason="spam")
    assert one.banned(AUTHOR, NOW_S + 10**9)
    assert one.banned_now(NOW_S + 10**9) == [AUTHOR]


def test_or_as_long_as_was_said() -> None:
    one = standings()
    one.ban(AUTHOR, NOW_S, for_s=60.0, reason="")
    assert [one.banned(AUTHOR, NOW_S + s) for s in (59, 60)] == [True, False]
    assert one.banned_now(NOW_S + 60) == []
    assert one.bans == {}


def test_lifting_a_ban_forgives() -> None:
    one = standings()
    banned_by_points(one, NOW_S)
    one.accuse(AUTHOR, "signed_reject", NOW_S)
    assert one.unban(AUTHOR, NOW_S)
    assert (one.banned(AUTHOR, NOW_S), one.offences.points(AUTHOR, NOW_S)) == (False, 0.0)
    assert banned_by_points(one, NOW_S) == BAN_S


@pytest.mark.parametrize("for_s", [None, 1.0])
def test_a_ban_that_is_not_there_cannot_be_lifted(for_s: float | None) -> None:
    one = standings()
    if for_s is not None:
        one.ban(AUTHOR, NOW_S, for_s=for_s, reason="")
    assert not one.unban(AUTHOR, NOW_S + 2)


def test_a_flood_of_identities_pushes_out_itself() -> None:
    one = standings()
    prove(one, AUTHOR)
    for number in range(10_000):
        one.scored(identity(number), num_rollouts=1)
    assert (one.num_authors, one.proven(AUTHOR)) == (NEW_MAX + 1, True)


def test_a_flood_of_banned_identities_pushes_out_itself() -> None:
    one = standings()
    prove(one, AUTHOR)
    one.scored(OTHER, num_rollouts=1)
    for number in range(10_000):
        one.accuse(identity(number), "signed_reject", NOW_S, num=5)
    assert (one.num_authors, one.proven(AUTHOR)) == (2, True)
    assert len(one.offences.by_peer) == OFFENDERS_MAX
    prove(one, OTHER)
    assert one.proven(OTHER)


def test_offenders_that_come_after_banned_ones_are_banned_as_well() -> None:
    one = standings()
    for number in range(10_000):
        one.accuse(identity(number), "signed_reject", NOW_S, num=5)
    for _ in range(5):
        bans = [one.accuse(peer, "forwarded_reject", NOW_S, num=2) for peer in (AUTHOR, OTHER)]
    assert None not in bans


def test_a_table_full_of_known_authors_forgets_who_was_not_seen_longest() -> None:
    one = standings()
    for number in range(KNOWN_MAX + 1):
        prove(one, identity(number))
    assert [one.proven(identity(number)) for number in (0, 1, KNOWN_MAX)] == [False, True, True]


def test_a_table_full_of_known_authors_lets_newcomers_become_known() -> None:
    one = standings()
    for number in range(KNOWN_MAX):
        prove(one, identity(number))
    newcomers = [identity(KNOWN_MAX + number) for number in range(100)]
    for _ in range(32):
        for author in newcomers:
            one.scored(author, num_rollouts=1)
    assert all(one.proven(author) for author in newcomers)


def test_banning_strangers_for_points_does_not_end_the_operators_bans() -> None:
    one = standings()
    one.ban(AUTHOR, NOW_S, for_s=None, reason="spam")
    for number in range(10_000):
        one.accuse(identity(number), "signed_reject", NOW_S, num=5)
    assert one.banned(AUTHOR, NOW_S)
    assert len(one.bans) == OPERATOR_BANS_MAX + OFFENDERS_MAX
    assert one.banned(identity(9_999), NOW_S)


def test_too_many_operator_bans_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarmd.trust.standing.OPERATOR_BANS_MAX", 2)
    one = standings()
    one.ban(AUTHOR, NOW_S, for_s=None, reason="")
    one.ban(OTHER, NOW_S, for_s=None, reason="")
    with pytest.raises(ValueError, match="2 bans"):
        one.ban(b"c" * 32, NOW_S, for_s=None, reason="")
