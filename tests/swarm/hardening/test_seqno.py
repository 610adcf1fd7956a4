"""T14: message numbers after a restart."""

from tests.swarm.hardening.kit import HARDENED, both, make_pubsub


@both
def test_numbers_go_on_after_a_restart_unless_stock(kind):
    before, after = make_pubsub(kind), None
    used = {before.pubsub._next_seqno() for _ in range(60)}
    after = make_pubsub(kind)
    fresh = {after.pubsub._next_seqno() for _ in range(50)}
    assert used.isdisjoint(fresh) is (kind == HARDENED)


@both
def test_a_number_is_eight_bytes_and_the_next_is_greater(kind):
    node = make_pubsub(kind)
    one, two = node.pubsub._next_seqno(), node.pubsub._next_seqno()
    assert len(one) == 8
    assert one < two
