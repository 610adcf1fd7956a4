"""What is shared of authors: uses are counted for each of them."""

from swarmd.trust.quotas import Quotas
from swarmd.trust.standing import Standings
from swarmd.trust.trust import Trust

ANN, EVE = b"a" * 32, b"e" * 32


def test_uses_and_what_was_left_out_of_them_are_counted_by_author() -> None:
    standings = Standings(proven_rollouts=1)
    trust = Trust(standings, Quotas(None, standings.proven))
    trust.note_use([ANN, EVE, EVE], [EVE])
    found = {author: (one.num_used, one.num_left_out) for author, one in standings.authors()}
    assert found == {ANN: (1, 0), EVE: (2, 1)}
