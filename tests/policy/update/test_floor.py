"""The floor that follows the node's own sampling."""

import math

from swarmd.policy.update.floor import MARGIN, OWN_MIN, TOKEN_MARGIN, WINDOW, Floor, Floors
from swarmd.policy.update.packing import TokenCompletion, TokenRollout


def said(*means: float, external: bool = False, measured: bool = True) -> TokenRollout:
    """Completions of two tokens with these mean log-probs."""
    completions = (
        TokenCompletion((1, 2), 1.0, engine_logps_T=(mean + 0.1, mean - 0.1) if measured else None)
        for mean in means
    )
    return TokenRollout((1,), tuple(completions), external)


def test_there_is_none_before_enough_was_said() -> None:
    floor = Floor()
    floor.observe([said(*[-1.0] * (OWN_MIN - 1))])
    assert floor.value == Floors(-math.inf, -math.inf)
    floor.observe([said(-1.0)])
    assert all(map(math.isfinite, floor.value))


def test_it_lies_a_margin_under_the_first_percentile() -> None:
    floor = Floor()
    floor.observe([said(*[-number / 100 for number in range(200)])])
    assert math.isclose(floor.value.mean, -1.97 - MARGIN)
    assert math.isclose(floor.value.token, -1.97 - 0.1 - TOKEN_MARGIN)


def test_others_and_what_was_not_measured_move_nothing() -> None:
    floor = Floor()
    floor.observe([said(*[-1.0] * 100)])
    before = floor.value
    floor.observe([said(*[-9.0] * 100, external=True), said(*[-9.0] * 100, measured=False)])
    assert floor.value == before


def test_what_was_said_long_ago_is_forgotten() -> None:
    floor = Floor()
    floor.observe([said(*[-5.0] * 100)])
    floor.observe([said(*[-1.0] * WINDOW)])
    assert math.isclose(floor.value.mean, -1.0 - MARGIN)
