"""Levels, shares and their verdict."""

from tests.attack.reward import Pair, Trial, pair_checks, pairs_table


def trial(arm: str, *levels: float, **facts: object) -> Trial:
    curves = [[(0, 0.0, 0.01), (50, 0.9, 0.01), (75, level, 0.01), (100, level, 0.01)] for level in levels]
    rest = {"used_of_hostile": 1, "used": 10, "lost": {}, "sprung": [], "restarts": 0}
    return Trial(0, arm, 1.0, curves, **{**rest, **facts})  # type: ignore[arg-type]


def test_a_level_is_of_the_second_half_of_the_rounds() -> None:
    assert trial("control", 0.5, 0.7).levels == [0.5, 0.7]


def test_the_share_is_of_the_means_and_its_error_of_the_spread() -> None:
    pair = Pair(trial("control", 0.5, 0.5), trial("attacked", 0.4, 0.6))
    assert pair.share == 1.0
    assert abs(pair.error - 0.2) < 1e-9


def test_less_than_19_twentieths_fails() -> None:
    control = trial("control", 0.5, 0.5)
    assert pair_checks([Pair(control, trial("attacked", 0.48, 0.48))])[0].passed
    assert not pair_checks([Pair(control, trial("attacked", 0.47, 0.47))])[0].passed


def test_a_lost_round_in_either_swarm_fails() -> None:
    pair = Pair(trial("control", 0.5, 0.5, lost={"node-0": "gap after 3"}), trial("attacked", 0.5, 0.5))
    assert [check.passed for check in pair_checks([pair])] == [True, False, True, True]


def test_the_table_has_a_line_for_each_seed_and_one_for_all() -> None:
    pair = Pair(trial("control", 0.5, 0.5), trial("attacked", 0.5, 0.5))
    assert len(pairs_table([pair, pair]).splitlines()) == 4
