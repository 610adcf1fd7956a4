"""The figure of falls is one of real falls: a harmful name costs rounds, a harmless swarm none, and too much is a failed check."""

from pathlib import Path

import trio

from swarmd.loops.canary.backoff import Backoff
from tests.attack.falls import Outcome, Scene, falls_checks, play, scenes
from tests.attack.skill import Weights
from tests.attack.worst import worth_a_fall


def outcome(
    kept: int, *, reward: float = 0.7, falls: int = 1, back_in_full: int | None = 50
) -> list[Outcome]:
    return [Outcome(kept, reward, falls, 0, 0, 0, back_in_full)]


def test_a_harmful_name_makes_the_policy_fall_and_an_honest_swarm_does_not(tmp_path: Path) -> None:
    harmful = Scene(
        "one harmful name", num_honest=1, num_hostile=1, harmful=lambda round, backoff: round > 20
    )
    attacked = trio.run(play, harmful, 50, 0, tmp_path / "attacked")
    spared = trio.run(play, Scene("one honest name", num_honest=1), 50, 0, tmp_path / "spared")
    assert (attacked.falls, attacked.kept, spared.falls, spared.kept) == (1, 29, 0, 50)


def test_a_ruined_policy_answers_nothing() -> None:
    assert Weights(learnt=400.0).reward > Weights().reward > Weights(learnt=400.0, ruined=True).reward == 0


def test_less_than_nine_tenths_of_a_nodes_own_rounds_or_reward_fail() -> None:
    fine = {name: outcome(600) for name in scenes(600)}
    assert all(check.passed for check in falls_checks(fine))
    for bad in (outcome(539), outcome(600, reward=0.6)):
        assert not all(check.passed for check in falls_checks(fine | {"one name": bad}))


def test_an_attack_without_a_fall_and_a_swarm_that_does_not_come_back_fail() -> None:
    fine = {name: outcome(600) for name in scenes(600)}
    assert not all(check.passed for check in falls_checks(fine | {"patient": outcome(600, falls=0)}))
    assert not all(
        check.passed for check in falls_checks(fine | {"false alarm": outcome(600, back_in_full=None)})
    )


def test_the_worst_attacker_spares_where_that_takes_more() -> None:
    assert worth_a_fall(20, Backoff())
    assert not worth_a_fall(20, Backoff(num_alone=1))
