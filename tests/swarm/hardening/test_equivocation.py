"""T7: what is kept to notice two contents under one number."""

import pytest

from swarmd.swarm.hardening import equivocation
from tests.swarm.hardening.kit import HARDENED, STOCK, both, make_pubsub, signed_message


@both
def test_no_message_is_kept_unless_stock(kind):
    node = make_pubsub(kind)
    for _ in range(10):
        assert node.router._check_equivocation(signed_message(node, b"x" * 100_000))
    held = sum(len(message.data) for message in node.router.equivocation_detection.values())
    assert (held >= 1_000_000) is (kind == STOCK)


@both
def test_other_content_under_the_same_number_is_noticed(kind):
    node = make_pubsub(kind)
    first = signed_message(node, b"one")
    node.pubsub.counter -= 1
    assert node.router._check_equivocation(first)
    assert node.router._check_equivocation(first)
    assert not node.router._check_equivocation(signed_message(node, b"two"))
    assert node.router.scorer.equivocation_penalties[node.peer_id] > 0


def test_the_store_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(equivocation, "PAIRS_MAX", 5)
    node = make_pubsub(HARDENED)
    for _ in range(9):
        node.router._check_equivocation(signed_message(node))
    assert len(node.router._content_of) == 5
