"""The cost of cells: a formula that can be followed by hand, and estimates that learn from finished cells."""

from dataclasses import replace

import pytest

from swarmd.experiment.arms import ARMS
from swarmd.experiment.presets import PRESETS, Preset, Rates
from swarmd.experiment.running.cells import Cell, cells_of
from swarmd.experiment.running.cost import Pace, amount, cell_cost, duration

RATES = Rates(
    prompt_tokens=10,
    completion_tokens=20,
    generate_tokens_s=100,
    sequence_tokens_s=10,
    update_tokens_s=50,
    round_s=1.0,
    start_s=5.0,
    parameters=1.0,
    origin="made up",
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


def test_tokens_are_questions_times_completions_times_length() -> None:
    cost = cell_cost(cell(), PRESET)
    assert cost.generated_tokens == 2 * 10 * 4 * 2 * 20
    assert cost.trained_tokens == 2 * 10 * 8 * 2 * 20
    # at the start, after rounds 4 and 8, and at the end
    assert cost.evaluation_tokens == 2 * 4 * 10 * 20


def test_seconds_follow_the_formula() -> None:
    # a round: 2 s for the longest, 1.6 s for all; update 320 + 80 tokens; evaluations 2 s each
    node = 10 * (2.0 + 400 / 50 + 1.0) + 4 * 2.0
    assert cell_cost(cell(), PRESET).seconds == pytest.approx(2 * node + 5)


def test_flops_are_two_and_six_a_parameter_and_token() -> None:
    rounds = 10 * (2 * (160 + 40) + 6 * (320 + 80))
    evaluations = 4 * 2 * (200 + 100)
    assert cell_cost(cell(), PRESET).flops == pytest.approx(2 * (rounds + evaluations))


def test_with_a_device_for_each_node_they_run_side_by_side() -> None:
    preset = replace(PRESET, runner="processes", rates=replace(RATES, one_device_each=True))
    alone, together = cell_cost(cell(), PRESET), cell_cost(cell(preset=preset), preset)
    assert together.seconds == pytest.approx((alone.seconds - 5) / 2 + 5)
    assert together.device_seconds == pytest.approx(2 * together.seconds)


def test_dynamic_sampling_counts_at_its_limit() -> None:
    plain, dynamic = cell_cost(cell("8/0"), PRESET), cell_cost(cell("8/0 dynamic"), PRESET)
    assert dynamic.generated_tokens == 2 * plain.generated_tokens
    assert dynamic.trained_tokens == plain.trained_tokens


def test_no_evaluation_costs_nothing() -> None:
    assert cell_cost(cell(evaluate__num_questions="0"), PRESET).evaluation_tokens == 0


def test_who_waits_for_a_late_joiner_does_more_rounds_and_the_joiner_as_many_again() -> None:
    late = cell_cost(cell(scenario="late"), PRESET)
    assert late.generated_tokens == (15 + 20) * 4 * 2 * 20


def test_a_short_token_limit_shortens_completions() -> None:
    assert cell_cost(cell(policy__tokens_max="5"), PRESET).generated_tokens == 2 * 10 * 4 * 2 * 5


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


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (950, "950"), (1_300_000, "1.3 M"), (42e12, "42 T"), (4.4e18, "4.4 E")]
)
def test_amounts_have_three_digits(number: float, text: str) -> None:
    assert amount(number) == text
