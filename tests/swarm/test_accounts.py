"""Forwarders have a rate, and a memory that is bounded."""

import pytest

from swarmd.protocol.signing import Identity
from swarmd.protocol.wire import named_author
from swarmd.swarm.accounts import (
    ACCUSED_MAX,
    AUTHOR_CPU_RATE,
    AUTHOR_CPU_S_MAX,
    AUTHORS_MAX,
    FORWARDERS_MAX,
    Accounts,
    Accusations,
    AuthorBudgets,
)
from tests.protocol.craft import (
    ALICE,
    MALLORY,
    MANIFEST,
    pack,
    plain_batch,
    plain_header,
    signed,
    stored_frame,
)

LIMITS = MANIFEST.limits
BODY = stored_frame(pack(plain_batch()))


def message_of(author):
    return signed(plain_header(BODY, author), BODY, author)


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


def test_an_author_that_was_too_much_work_waits_until_it_is_paid_off():
    budgets, dear = AuthorBudgets(), ALICE.public_key
    budgets.charge(dear, "accepted", AUTHOR_CPU_S_MAX, 0.0)
    at_zero = budgets.refuse(dear, 0.0)
    budgets.charge(dear, "completions_count", 0.013, 0.0)
    assert (at_zero, budgets.refuse(dear, 0.0)) == (False, True)
    assert budgets.refuse(dear, 0.012 / AUTHOR_CPU_RATE)
    assert not budgets.refuse(dear, 0.014 / AUTHOR_CPU_RATE)
    assert not budgets.refuse(MALLORY.public_key, 0.0)


@pytest.mark.parametrize(
    "rule", ["signature", "body_digest", "author_key", "duplicate", "age_stale", "internal"]
)
def test_nobody_spends_the_budget_of_an_author_whose_signature_it_has_not(rule):
    budgets, author = AuthorBudgets(), ALICE.public_key
    budgets.charge(author, rule, 1000.0, 0.0)
    assert not budgets.refuse(author, 0.0)


def test_what_names_no_author_is_left_to_the_rules():
    budgets = AuthorBudgets()
    assert named_author(message_of(ALICE), LIMITS) == ALICE.public_key
    author = named_author(b"garbage", LIMITS)
    budgets.charge(author, "accepted", 1000.0, 0.0)
    assert author is None
    assert not budgets.refuse(author, 0.0)


def test_budgets_are_bounded():
    budgets = AuthorBudgets()
    for number in range(AUTHORS_MAX + 5):
        author = Identity.from_seed(number.to_bytes(32, "big"))
        budgets.charge(author.public_key, "accepted", 0.001, 0.0)
    assert len(budgets._by_author) == AUTHORS_MAX
