"""Forwarders have a rate, and a memory that is bounded."""

from swarmd.swarm.accounts import ACCUSED_MAX, FORWARDERS_MAX, Accounts, Accusations


def test_a_burst_is_allowed_and_no_more():
    accounts = Accounts(rate_max=10, burst_max=3)
    account = accounts.of("a", 0.0)
    assert [accounts.allow(account, 0.0) for _ in range(4)] == [True, True, True, False]


def test_tokens_come_back_at_the_rate():
    accounts = Accounts(rate_max=10, burst_max=1)
    account = accounts.of("a", 0.0)
    assert accounts.allow(account, 0.0)
    assert not accounts.allow(account, 0.05)
    assert accounts.allow(account, 0.2)


def test_tokens_do_not_pile_up_over_a_quiet_day():
    accounts = Accounts(rate_max=10, burst_max=2)
    account = accounts.of("a", 0.0)
    assert [accounts.allow(account, 86_400.0) for _ in range(3)] == [True, True, False]


def test_the_longest_silent_forwarder_is_forgotten():
    accounts = Accounts(rate_max=1, burst_max=1)
    for number in range(FORWARDERS_MAX + 1):
        accounts.of(str(number), 0.0)
    assert accounts.get("0") is None
    assert accounts.get("1") is not None


def test_evidence_is_told_once_and_added_up() -> None:
    accusations = Accusations()
    accusations.add([(b"a", "forwarded_reject"), (b"b", "signed_reject")])
    accusations.add([(b"a", "forwarded_reject")])
    assert accusations.take() == [(b"a", "forwarded_reject", 2), (b"b", "signed_reject", 1)]
    assert accusations.take() == []


def test_a_crowd_of_culprits_is_bounded_and_the_known_ones_still_count() -> None:
    accusations = Accusations()
    for number in range(2 * ACCUSED_MAX):
        accusations.add([(number.to_bytes(32, "big"), "forwarded_reject")])
    accusations.add([(bytes(32), "forwarded_reject")])
    found = accusations.take()
    assert (len(found), found[0]) == (ACCUSED_MAX, (bytes(32), "forwarded_reject", 2))
