"""What is said of all attacks together is true of them."""

from tests.attack.bout import text_of
from tests.attack.deeds import DEEDS, TOGETHER, TOGETHER_GROUPS
from tests.attack.deeds.flood import FLOODERS_IN_COMPANY
from tests.attack.deeds.port import SQUATTERS_IN_COMPANY, SQUATTERS_PER_VICTIM
from tests.attack.deeds.sockets import HALF_OPEN_IN_COMPANY, HALF_OPEN_PER_VICTIM


def test_the_row_of_all_together_names_what_is_left_out() -> None:
    left_out = set(DEEDS) - {name for group in TOGETHER_GROUPS for name in group}
    assert left_out == {name for name in DEEDS if name in text_of(TOGETHER)} - {
        "harmful",
        "half-open",
        "flood-twenty",
        "squat",
    }


def test_the_row_of_all_together_names_what_is_smaller() -> None:
    assert "half-open with a third of its connections" in text_of(TOGETHER)
    assert round(HALF_OPEN_PER_VICTIM / HALF_OPEN_IN_COMPANY) == 3
    assert "squat with a twelfth" in text_of(TOGETHER)
    assert SQUATTERS_PER_VICTIM / SQUATTERS_IN_COMPANY == 12
    assert "flood-twenty with five identities" in text_of(TOGETHER)
    assert FLOODERS_IN_COMPANY == 5
