"""The cost of cells: a formula that can be followed by hand, and estimates that learn from finished cells."""

from dataclasses import replace

import pytest

from swarmd.experiment.arms import ARMS
from swarmd.experiment.presets import PRESETS, Preset, Rates
from swarmd.experiment.running.cells import Cell, cells_of
from swarmd.experiment.running.cost import Pace, cell_s, duration

RATES = Rates(
    prompt_tokens=10,
    completion_tokens=20,
    generate_tokens_s=100,
    sequence_tokens_s=10,
    update_tokens_s=50,
    round_s=1.0,
    start_s=5.0,
)
SETTINGS = {
    "swarm.name": "tiny",
    "policy.tokens_max": "32",
    "experience.completions": "2",
    "evaluate.num_questions": "10",
    "evaluate.completions": "1",
    "evaluate.every_rounds": "4",
}
PRESET = replace(PRESETS["smoke"], num_nodes=2, rounds=10, settings=SETTINGS, rates=RATES, seeds=(0,))


def cell(arm: str = "4/4", preset: Preset = PRESET, scenario: str = "alike", **settings: str) -> Cell:
    others = {key.replace("__", "."): value for key, value in settings.items()}
    preset = replace(preset, settings={**preset.settings, **others})
    return cells_of(preset, [ARMS[arm]], [0], [scenario])[0]


def test_seconds_follow_the_formula() -> None:
    # a round: 2 s for the longest, 1.6 s for all; update 320 + 80 tokens; evaluations 2 s each
    node = 10 * (2.0 + 400 / 50 + 1.0) + 4 * 2.0
    assert cell_s(cell(), PRESET) == pytest.approx(2 * node + 5)


def test_with_a_device_for_each_node_they_run_side_by_side() -> None:
    preset = replace(PRESET, runner="processes", rates=replace(RATES, one_device_each=True))
    alone, together = cell_s(cell(), PRESET), cell_s(cell(preset=preset), preset)
    assert together == pytest.approx((alone - 5) / 2 + 5)


def test_dynamic_sampling_counts_at_its_limit() -> None:
    # twice 320 tokens at 100/s instead of 320, of two nodes in ten rounds
    plain, dynamic = cell_s(cell("8/0"), PRESET), cell_s(cell("8/0 dynamic"), PRESET)
    assert dynamic - plain == pytest.approx(2 * 10 * 3.2)


def test_no_evaluation_costs_nothing() -> None:
    assert cell_s(cell(evaluate__num_questions="0"), PRESET) == pytest.approx(2 * 10 * 11.0 + 5)


def test_who_waits_for_a_late_joiner_does_more_rounds_and_the_joiner_as_many_again() -> None:
    late = cell_s(cell(scenario="late", evaluate__num_questions="0"), PRESET)
    assert late == pytest.approx((15 + 20) * 11.0 + 5)


def test_a_short_token_limit_shortens_completions() -> None:
    # a round: 0.5 s for the longest, 0.4 s for all; update 8 x (2 x 5 + 10) tokens; evaluations 0.5 s each
    node = 10 * (0.5 + 160 / 50 + 1.0) + 4 * 0.5
    assert cell_s(cell(policy__tokens_max="5"), PRESET) == pytest.approx(2 * node + 5)


def test_the_pace_is_the_median_of_what_finished_cells_took() -> None:
    pace, one = Pace(PRESET), cell()
    expected = pace.expected_s(one)
    for factor in (3.0, 2.0, 100.0):
        pace.finished(one, factor * expected)
    assert pace.expected_s(one) == pytest.approx(3 * expected)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (89, "89 s"), (600, "10 min"), (9000, "2.5 h"), (3 * 86400, "3.0 days")],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text
