"""Verdicts on folders in which the truth is known, because it was written into them."""

import json
import math
from pathlib import Path

import pytest

from swarmd.experiment.reporting.hypotheses import DROP, EACH_NODE, END, Hypothesis, hypotheses, mix, shares
from swarmd.experiment.reporting.measures import FRESH, GENERATED, HELD_OUT, ROUND, SECONDS, TRAINED
from swarmd.experiment.reporting.results import read_experiment
from swarmd.experiment.reporting.verdicts import FAILS, HOLDS, NOT_RUN, OPEN, Verdict, judge, verdicts
from tests.experiment.reporting.synthetic import Synthetic, cell_of, falling_back, rising, write_experiment


def judged(folder: Path, **asked: object) -> Verdict:
    """The verdict on 4/4 against 8/0, or what is asked instead."""
    facts: dict[str, object] = {
        "group": "",
        "arm": "4/4",
        "against": "8/0",
        "measure": HELD_OUT,
    }
    return judge(read_experiment(folder), Hypothesis(**{**facts, **asked}))  # type: ignore[arg-type]


def effect(verdict: Verdict) -> float:
    assert verdict.estimate is not None
    return verdict.estimate.effect


@pytest.mark.parametrize("reward", [FRESH, HELD_OUT])
@pytest.mark.parametrize(("factor", "state"), [(1.6, HOLDS), (0.6, FAILS), (1.0, OPEN)])
def test_a_known_factor_gets_the_right_verdict(
    tmp_path: Path, reward: str, factor: float, state: str
) -> None:
    write_experiment(tmp_path, {"8/0": Synthetic(), "4/4": Synthetic(rising(factor))})
    verdict = judged(tmp_path, measure=reward)
    assert verdict.state == state, verdict.reason
    assert verdict.estimate is not None
    assert verdict.estimate.interval is not None
    assert verdict.estimate.interval[0] < factor < verdict.estimate.interval[1]


def test_without_any_effect_few_verdicts_are_wrong(tmp_path: Path) -> None:
    arms = {f"arm {k}": Synthetic(noise=0.2) for k in range(20)} | {"8/0": Synthetic(noise=0.2)}
    write_experiment(tmp_path, arms, num_nodes=1, num_rounds=10)
    experiment = read_experiment(tmp_path)
    pairs = [(a, b) for a in arms for b in arms if a < b]
    states = [judge(experiment, Hypothesis("", a, b, FRESH)).state for a, b in pairs]
    # 210 pairs of 21 arms, not independent; one in twenty is claimed
    assert states.count(OPEN) / len(states) > 0.88


def test_without_noise_the_ratio_is_exact_at_every_horizon(tmp_path: Path) -> None:
    write_experiment(tmp_path, {"8/0": Synthetic(noise=0), "4/4": Synthetic(rising(1.25), noise=0)})
    for reward in (FRESH, HELD_OUT):
        verdict = judged(tmp_path, measure=reward)
        assert effect(verdict) == pytest.approx(1.25)
        assert [at.estimate.effect for at in verdict.horizons] == pytest.approx(
            [1.25] * len(verdict.horizons)
        )
        assert verdict.horizons[-1].rounds == verdict.rounds == 40


@pytest.mark.parametrize("axis", [ROUND, GENERATED, TRAINED, SECONDS])
def test_cost_is_what_the_axis_says(tmp_path: Path, axis: str) -> None:
    # a straight rise from 0.01 to 0.2 has a mean of 0.105, and of 0.0575 up to its middle: so far the dearer arm gets
    arms = {
        "8/0": Synthetic(noise=0, generated_tokens=8000, trained_tokens=3000),
        "4/4": Synthetic(rising(1.5), noise=0, generated_tokens=4000, trained_tokens=6000),
    }
    write_experiment(tmp_path, arms)
    expected = {GENERATED: 1.5 * 0.105 / 0.0575, TRAINED: 1.5 * 0.0575 / 0.105}.get(axis, 1.5)
    assert effect(judged(tmp_path, axis=axis)) == pytest.approx(expected, rel=0.01)


def test_dynamic_sampling_is_behind_per_token_and_level_per_round(tmp_path: Path) -> None:
    write_experiment(tmp_path, {"8/0 dynamic": Synthetic(generated_tokens=16000), "4/4": Synthetic()})
    states = [judged(tmp_path, against="8/0 dynamic", axis=axis).state for axis in (ROUND, GENERATED)]
    assert states == [OPEN, HOLDS]


def test_one_seed_shows_an_effect_and_decides_nothing(tmp_path: Path) -> None:
    write_experiment(tmp_path, {"8/0": Synthetic(), "4/4": Synthetic(rising(3.0))}, seeds=[4])
    verdict = judged(tmp_path)
    assert (verdict.state, verdict.reason) == (OPEN, "one seed gives no interval")
    assert effect(verdict) == pytest.approx(3.0, rel=0.3)
    assert [pair.seed for pair in verdict.seeds] == [4]


def test_too_few_seeds_decide_nothing_however_clear(tmp_path: Path) -> None:
    arms = {"8/0": Synthetic(noise=0), "4/4": Synthetic(rising(3.0), noise=0)}
    write_experiment(tmp_path, arms, seeds=range(4))
    assert judged(tmp_path, seeds_min=5).reason == "4 seeds, 5 were asked for"
    assert judged(tmp_path, seeds_min=4).state == HOLDS


def test_only_seeds_of_both_arms_are_compared(tmp_path: Path) -> None:
    write_experiment(tmp_path, {"8/0": Synthetic()}, seeds=[0, 1, 2])
    write_experiment(tmp_path, {"4/4": Synthetic()}, seeds=[1, 2, 3])
    assert [pair.seed for pair in judged(tmp_path).seeds] == [1, 2]


def test_arms_without_a_common_seed_are_not_compared(tmp_path: Path) -> None:
    write_experiment(tmp_path, {"8/0": Synthetic()}, seeds=[0])
    write_experiment(tmp_path, {"4/4": Synthetic()}, seeds=[1])
    assert (judged(tmp_path).state, judged(tmp_path).reason) == (
        NOT_RUN,
        "the two arms have no seed in common",
    )


def test_an_arm_that_is_missing_is_named(tmp_path: Path) -> None:
    write_experiment(tmp_path, {"4/4": Synthetic()}, seeds=[0])
    assert judged(tmp_path).reason == "no finished cell of 8/0"


def test_records_without_a_cost_are_not_compared_by_it(tmp_path: Path) -> None:
    write_experiment(
        tmp_path, {"8/0": Synthetic(), "4/4": Synthetic(generated_tokens=math.nan)}, seeds=[0, 1]
    )
    verdict = judged(tmp_path, axis=GENERATED)
    assert (verdict.state, verdict.reason) == (NOT_RUN, "the records of these cells lack what it takes")
    assert judged(tmp_path).state != NOT_RUN


def test_a_seed_that_lacks_evaluations_is_said(tmp_path: Path) -> None:
    write_experiment(tmp_path, {"8/0": Synthetic(), "4/4": Synthetic(rising(2.0))})
    (cell_of(tmp_path, "4/4", 2) / "node-0" / "evaluations.jsonl").unlink()
    verdict = judged(tmp_path)
    assert [pair.seed for pair in verdict.seeds] == [0, 1, 3, 4]
    assert verdict.notes == ("1 seeds lack what it takes",)


@pytest.mark.parametrize(("drop", "state"), [(0.05, HOLDS), (0.2, FAILS)])
def test_oscillation_is_halved_or_not(tmp_path: Path, drop: float, state: str) -> None:
    arms = {"2/6": Synthetic(falling_back(0.2)), "2/6 calm": Synthetic(falling_back(drop))}
    write_experiment(tmp_path, arms)
    found = verdicts(read_experiment(tmp_path))
    (verdict,) = (v for v in found if (v.hypothesis.arm, v.hypothesis.measure) == ("2/6 calm", DROP))
    assert verdict.state == state
    assert effect(verdict) == pytest.approx(drop / 0.2, rel=0.15)


def test_an_arm_of_its_own_is_held_against_4_4(tmp_path: Path) -> None:
    write_experiment(tmp_path, {"4/4": Synthetic(), "best": Synthetic(rising(1.7))})
    found = [v for v in verdicts(read_experiment(tmp_path)) if v.hypothesis.arm == "best"]
    assert [(v.hypothesis.bar, v.state) for v in found] == [
        (1.25, HOLDS),
        (1.0, HOLDS),  # at the end of the run
        (0.9, HOLDS),
        (1.0, HOLDS),
        (1.0, HOLDS),
    ]


@pytest.mark.parametrize("scenario", ["alike", "mixed", "specialised", "late"])
def test_behind_every_claim_on_an_area_stands_the_one_on_its_end(scenario: str) -> None:
    arms = [
        "8/0",
        "8/0 dynamic",
        "8/0 1e-3",
        "4/4",
        "4/4 1e-3",
        "2/6 1e-3",
        "4/12 positive 1e-3",
        "4/4 guarded",
    ]
    asked = hypotheses(scenario, arms)
    areas = {(h.arm, h.against) for h in asked if (h.measure, h.axis) == (HELD_OUT, ROUND)}
    assert areas
    assert areas <= {(h.arm, h.against) for h in asked if h.measure == END}


def test_who_took_off_sooner_and_is_overtaken_is_ahead_in_area_alone(tmp_path: Path) -> None:
    write_experiment(tmp_path, {"8/0": Synthetic(rising(1.0, end=0.4)), "4/4": Synthetic(lambda share: 0.3)})
    assert [judged(tmp_path, measure=measure).state for measure in (HELD_OUT, END)] == [HOLDS, FAILS]


@pytest.mark.parametrize(("shortfall", "num_notes"), [(0.9, 0), (2.4, 1)])
def test_an_arm_that_found_too_few_externals_is_named(
    tmp_path: Path, shortfall: float, num_notes: int
) -> None:
    write_experiment(tmp_path, {"8/0": Synthetic(), "4/4": Synthetic(shortfall=shortfall)})
    notes = judged(tmp_path).notes
    assert [note for note in notes if note.startswith("4/4 found 1.60 of the 4.00")] == list(notes)
    assert len(notes) == num_notes


def test_a_silo_with_other_settings_is_what_sharing_is_held_against() -> None:
    asked = {(h.arm, h.against) for h in hypotheses("alike", ["8/0", "8/0 fast", "4/4 fast", "2/6 slow"])}
    assert {("4/4", "8/0 fast"), ("4/4 fast", "8/0 fast"), ("4/4 fast", "4/4")} <= asked
    assert not {("8/0 fast", "4/4"), ("2/6 slow", "8/0 fast")} & asked


def test_a_new_arm_is_held_against_the_papers_arms_at_a_learning_rate_of_their_own() -> None:
    arms = ["4/4", "2/6", "4/4 1e-3", "2/6 1e-3", "4/12 positive 1e-3", "2/14 positive 6e-4", "8/0 1e-3"]
    asked = {(h.arm, h.against, h.measure, h.bar) for h in hypotheses("alike", arms)}
    assert ("4/12 positive 1e-3", "4/4 1e-3", HELD_OUT, 1.25) in asked
    assert ("2/14 positive 6e-4", "2/6 1e-3", DROP, 0.5) in asked
    assert ("2/14 positive 6e-4", "2/6 1e-3", HELD_OUT, 0.9) in asked
    assert (
        not {("2/6 1e-3", "4/4 1e-3", HELD_OUT, 1.25), ("2/14 positive 6e-4", "4/4 1e-3", HELD_OUT, 1.25)}
        & asked
    )


def test_who_trains_alone_does_so_with_the_same_settings_where_that_was_run() -> None:
    arms = ["8/0", "8/0 1e-3", "8/0 dynamic", "4/4 self", "4/4", "4/12 positive 1e-3"]
    asked = {(h.arm, h.against) for h in hypotheses("late", arms) if h.group == "Late joiners"}
    assert asked == {("4/4", "8/0"), ("4/12 positive 1e-3", "8/0"), ("4/12 positive 1e-3", "8/0 1e-3")}


def test_what_the_guards_cost_is_asked_where_a_guarded_swarm_was_run() -> None:
    asked = [
        (h.arm, h.against, h.measure, h.bar)
        for h in hypotheses("alike", ["4/4", "4/4 guarded"])
        if "guarded" in h.arm
    ]
    assert asked == [("4/4 guarded", "4/4", measure, 0.97) for measure in (HELD_OUT, END, FRESH)]
    assert not any("guarded" in h.arm for h in hypotheses("alike", ["4/4", "8/0"]))


def special(folder: Path, foreign: float = 1.0) -> dict[str, Verdict]:
    write_experiment(folder, {"8/0": Synthetic(), "4/4": Synthetic(foreign=foreign)}, scenario="specialised")
    found = [v for v in verdicts(read_experiment(folder)) if v.hypothesis.group == "Specialised nodes"]
    return {v.hypothesis.statistic: v for v in found}


def test_specialised_nodes_gain_where_they_never_generated(tmp_path: Path) -> None:
    found = special(tmp_path, foreign=2.0)
    assert [v.state for v in found.values()] == [HOLDS, HOLDS]
    # 3 nodes of one dataset each of 4; the seeds' mean level is about 1
    assert effect(found["difference"]) == pytest.approx(0.2, rel=0.4)
    assert len(found[EACH_NODE].nodes) == 3


def test_specialised_nodes_without_a_gain_are_not_said_to_have_one(tmp_path: Path) -> None:
    assert [v.state for v in special(tmp_path).values()] == [OPEN, OPEN]
    assert [v.state for v in special(tmp_path, foreign=0.3).values()] == [FAILS, FAILS]


def test_one_node_that_loses_is_enough(tmp_path: Path) -> None:
    special(tmp_path, foreign=2.0)
    for seed in range(5):
        path = cell_of(tmp_path, "4/4", seed, "specialised") / "node-2" / "evaluations.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            line["by_dataset"] = {
                name: [0.001 * seed, size] for name, (_, size) in line["by_dataset"].items()
            }
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    experiment = read_experiment(tmp_path)
    (each,) = (v for v in verdicts(experiment) if v.hypothesis.statistic == EACH_NODE)
    assert each.state == FAILS
    assert "the worst, node 2" in each.reason


def late(folder: Path, alone: float, together: float) -> Verdict:
    arms = {"8/0": Synthetic(late_speed=alone, noise=0.01), "4/4": Synthetic(late_speed=together, noise=0.01)}
    write_experiment(folder, arms, scenario="late", num_rounds=80, evaluate_every=2)
    (verdict,) = (v for v in verdicts(read_experiment(folder)) if v.hypothesis.group == "Late joiners")
    return verdict


def test_a_late_joiner_that_is_faster_is_found_to_be(tmp_path: Path) -> None:
    verdict = late(tmp_path, alone=1.0, together=4.0)
    assert verdict.state == HOLDS
    assert effect(verdict) == pytest.approx(0.25, rel=0.1)


def test_a_late_joiner_that_is_no_faster_is_not_said_to_be(tmp_path: Path) -> None:
    assert late(tmp_path, alone=1.2, together=1.5).state == FAILS


def test_never_reached_alone_makes_the_ratio_an_upper_bound(tmp_path: Path) -> None:
    verdict = late(tmp_path, alone=0.5, together=4.0)
    assert verdict.state == HOLDS
    assert verdict.seeds[0].b == 40
    assert "upper bounds" in verdict.notes[0]


def test_never_reached_in_the_swarm_does_not_hold(tmp_path: Path) -> None:
    verdict = late(tmp_path, alone=4.0, together=0.5)
    assert verdict.state == FAILS
    assert "lower bounds" in verdict.notes[0]


def test_never_reached_by_either_says_nothing(tmp_path: Path) -> None:
    verdict = late(tmp_path, alone=0.5, together=0.5)
    assert (verdict.state, verdict.estimate) == (NOT_RUN, None)
    assert "nobody got there" in verdict.reason


@pytest.mark.parametrize(
    ("arm", "parts"), [("8/0", (8, 0)), ("4/12 positive 1e-3", (4, 12)), ("best", None), ("1/2/3", None)]
)
def test_the_mix_is_read_from_a_name(arm: str, parts: tuple[int, int] | None) -> None:
    assert mix(arm) == parts


@pytest.mark.parametrize(
    ("arm", "does"), [("4/0", False), ("4/4", True), ("4/4 self", False), ("best", True)]
)
def test_who_shares_is_read_from_a_name(arm: str, does: bool) -> None:
    assert shares(arm) is does


def test_the_papers_claims_are_asked_even_where_nothing_was_run() -> None:
    asked = [(h.arm, h.against, h.measure, h.published) for h in hypotheses("alike", [])]
    assert ("4/4", "8/0", FRESH, 1.94) in asked
    assert ("2/6", "8/0", HELD_OUT, 1.68) in asked
    assert ("4/4", "4/4 self", HELD_OUT, None) in asked
    assert hypotheses("mixed", []) == []
