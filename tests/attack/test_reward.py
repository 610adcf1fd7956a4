"""Levels, shares and their verdict."""

from pathlib import Path

import pytest

from tests.attack import reward
from tests.attack.checks import Check
from tests.attack.reward import Pair, merged, pair_checks, pairs_table, run_pairs
from tests.attack.trial import Trial

MEAN, SINGLE, LEARNED = range(3)


def trial(arm: str, *levels: float, **facts: object) -> Trial:
    curves = [[(0, 0.0, 0.01), (50, 0.9, 0.01), (75, level, 0.01), (100, level, 0.01)] for level in levels]
    return Trial(0, arm, 1.0, curves, used_of_hostile=1, used=10, **facts)  # type: ignore[arg-type]


def pair(control: float, *attacked: float) -> Pair:
    return Pair(trial("control", control, control), trial("attacked", *attacked))


def test_a_level_is_of_the_second_half_of_the_rounds() -> None:
    assert trial("control", 0.5, 0.7).levels == [0.5, 0.7]


def test_the_share_is_of_the_means_and_its_error_of_the_spread() -> None:
    one = pair(0.5, 0.4, 0.6)
    assert one.share == 1.0
    assert abs(one.error - 0.2) < 1e-9


def test_less_than_19_twentieths_in_the_mean_fails() -> None:
    assert pair_checks([pair(0.5, 0.48, 0.48)])[MEAN].passed
    assert not pair_checks([pair(0.5, 0.47, 0.47)])[MEAN].passed


def test_one_seed_far_below_fails_whatever_the_mean() -> None:
    found = pair_checks([pair(0.5, 0.46, 0.46), pair(0.5, 0.6, 0.6)])
    assert found[MEAN].passed
    assert not found[SINGLE].passed


def test_one_seed_below_by_less_than_two_of_its_errors_is_noise() -> None:
    found = pair_checks([pair(0.5, 0.40, 0.52), pair(0.5, 0.6, 0.6)])
    assert found[SINGLE].passed


def test_every_seed_is_told() -> None:
    assert pair_checks([pair(0.5, 0.5, 0.5), pair(0.5, 0.45, 0.45)])[MEAN].detail.count("seed 0") == 2


def test_a_control_that_learned_nothing_fails() -> None:
    assert pair_checks([pair(0.5, 0.5, 0.5)])[LEARNED].passed
    assert not pair_checks([pair(0.0, 0.0, 0.0)])[LEARNED].passed


def test_what_fails_in_either_swarm_fails_with_its_seed_and_arm() -> None:
    good, bad = Check("no round lost", True, "fine"), Check("no round lost", False, "gap after 3")
    found = merged([trial("control", 0.5, checks=[bad]), trial("attacked", 0.5, checks=[good])])
    assert [(check.passed, check.detail) for check in found] == [(False, "seed 0 control: gap after 3")]


def test_what_only_the_attacked_swarm_is_asked_is_a_line_too() -> None:
    found = merged([trial("control", 0.5), trial("attacked", 0.5, checks=[Check("began", False)])])
    assert [check.passed for check in found] == [False]


def test_a_seed_that_breaks_off_fails_and_the_next_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    def run_trial(root: Path, seed: int, rounds: int, *, attacked: bool) -> Trial:
        if seed == 0:
            raise RuntimeError("node-1 did not reach round 200")
        return trial("attacked" if attacked else "control", 0.5, 0.5)

    monkeypatch.setattr(reward, "run_trial", run_trial)
    # when
    pairs, failed = run_pairs(tmp_path, [0, 1], 200, lambda line: None)
    # then
    assert len(pairs) == 1
    assert [(check.passed, check.detail) for check in failed] == [(False, "node-1 did not reach round 200")]


def test_the_table_has_a_line_for_each_seed_and_one_for_all() -> None:
    assert len(pairs_table([pair(0.5, 0.5, 0.5)] * 2).splitlines()) == 4
