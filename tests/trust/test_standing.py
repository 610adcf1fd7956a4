"""Standings: who counts as proven."""

from swarmd.trust.standing import Standings

AUTHOR, OTHER = b"a" * 32, b"b" * 32


def test_an_unknown_author_is_unproven() -> None:
    assert not Standings(proven_rollouts=1).proven(AUTHOR)


def test_an_author_is_proven_by_its_own_scored_rollouts() -> None:
    standings = Standings(proven_rollouts=32)
    standings.scored(AUTHOR, num_rollouts=31, num_informative=0)
    before = standings.proven(AUTHOR)
    standings.scored(AUTHOR, num_rollouts=1, num_informative=0)
    assert (before, standings.proven(AUTHOR), standings.proven(OTHER)) == (False, True, False)
