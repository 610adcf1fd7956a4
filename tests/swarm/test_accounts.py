"""Forwarders have a rate, and a memory that is bounded."""

from swarmd.swarm.accounts import FORWARDERS_MAX, Accounts


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
