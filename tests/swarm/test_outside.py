"""How a node looks from outside, by what peers say. No network."""

from swarmd.swarm.outside import SAID_HOLDS_S, View
from swarmd.swarm.whereabouts import KNOCK_HOLDS_S


def test_nobody_said_anything() -> None:
    view = View()
    assert view.wants(0.0)
    assert view.outside(0.0) == (None, (), 0, 0)


def test_where_we_are_seen_is_known_before_whether_we_can_be_reached() -> None:
    view = View()
    view.note("a", "1.1.1.1", None, 0.0)
    assert view.wants(0.0)
    assert view.outside(0.0) == (None, ("1.1.1.1",), 0, 0)
    view.note("a", "1.1.1.1", False, 1.0)
    assert not view.wants(1.0)
    assert view.outside(1.0) == (False, ("1.1.1.1",), 0, 1)


def test_the_majority_counts_and_one_who_got_in_among_two_suffices() -> None:
    view = View()
    view.note("a", "1.1.1.1", False, 0.0)
    view.note("b", "1.1.1.1", True, 0.0)
    assert view.outside(0.0).reachable is True
    view.note("c", "2.2.2.2", False, 0.0)
    assert view.outside(0.0) == (False, ("1.1.1.1", "2.2.2.2"), 1, 2)


def test_one_voice_counts_once() -> None:
    view = View()
    for _ in range(5):
        view.note("a", "1.1.1.1", False, 0.0)
    assert view.outside(0.0).num_failed == 1


def test_who_has_not_knocked_again_keeps_what_it_said_as_old_as_it_is() -> None:
    view = View()
    view.note("a", "1.1.1.1", True, 0.0)
    view.note("a", "1.1.1.1", None, KNOCK_HOLDS_S + 1)
    assert view.outside(KNOCK_HOLDS_S + 1).num_reached == 1
    assert view.wants(KNOCK_HOLDS_S + 1)
    assert view.outside(SAID_HOLDS_S).reachable is None


def test_another_outside_address_is_another_question() -> None:
    view = View()
    view.note("a", "1.1.1.1", True, 0.0)
    view.note("a", "2.2.2.2", None, 1.0)
    assert view.outside(1.0) == (None, ("2.2.2.2",), 0, 0)
