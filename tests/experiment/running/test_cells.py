"""The cells to run: their order, what is kept of an earlier run, and what is not mixed with it."""

from dataclasses import replace
from pathlib import Path

import pytest

from swarmd.errors import ConfigError, StateError
from swarmd.experiment.arms import ARMS
from swarmd.experiment.cell import Cell, NodeSpec, rounds_of, settings_of
from swarmd.experiment.running.cells import (
    cells_of,
    differences,
    waiting_cells,
)
from tests.experiment.running.few import SMOKE, some_cells


def save(root: Path, cell: Cell, status: str = "done") -> None:
    """As the cell's process would have left it."""
    replace(cell, status=status).save(cell.folder(root))  # type: ignore[arg-type]


def test_all_arms_of_a_seed_come_before_the_next_seed() -> None:
    cells = cells_of(SMOKE, [ARMS["8/0"], ARMS["4/4"]], [3, 1], ["alike", "late"])
    assert [(c.seed, c.scenario, c.arm) for c in cells] == [
        (seed, scenario, arm) for seed in (3, 1) for scenario in ("alike", "late") for arm in ("8/0", "4/4")
    ]


def test_an_arms_setting_beats_the_command_lines_and_that_the_presets() -> None:
    (cell, _) = some_cells(seeds=[0], experience__mix="2/2", evaluate__num_questions="7")
    assert cell.settings["experience.mix"] == "8/0"
    assert cell.settings["evaluate.num_questions"] == "7"
    assert cell.settings["evaluate.every_rounds"] == SMOKE.settings["evaluate.every_rounds"]


def test_cells_have_folders_of_their_own_below_scenario_and_arm(tmp_path: Path) -> None:
    folders = [cell.folder(tmp_path).relative_to(tmp_path).as_posix() for cell in some_cells()]
    assert folders[0] == "cells/alike/8-0/seed-0"
    assert len(set(folders)) == 4


@pytest.mark.parametrize(("arms", "seeds"), [((), (0,)), (("8/0",), ())])
def test_nothing_to_compare_is_refused(arms: tuple[str, ...], seeds: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="nothing to run"):
        some_cells(arms, seeds)


def test_settings_that_no_node_takes_are_refused_with_the_arms_name() -> None:
    with pytest.raises(ConfigError, match="arm '8/0': bad value"):
        some_cells(evaluate__completions="0")


def test_real_nodes_cannot_be_given_a_speed() -> None:
    with pytest.raises(ConfigError, match="scenarios with speeds need --runner simulation"):
        cells_of(replace(SMOKE, num_nodes=8, runner="processes"), [ARMS["4/4"]], [0], ["mixed"])


def test_a_node_has_its_own_settings_over_the_arms() -> None:
    node = NodeSpec("node-0", "tiny", settings={"experience.completions": "4"}, datasets=("gcd", "lcm"))
    cell = Cell("mixed", "4/4", {"experience.mix": "4/4", "experience.completions": "8"}, 0, (node,), 10)
    assert settings_of(cell, node) == {
        "policy.model": "tiny",
        "questions.datasets": "gcd,lcm",
        "experience.mix": "4/4",
        "experience.completions": "4",
    }


def test_everybody_goes_on_until_the_last_to_join_has_had_its_rounds() -> None:
    nodes = (NodeSpec("a"), NodeSpec("b", speed=0.1), NodeSpec("c", joins_at_round=5))
    cell = Cell("late", "4/4", {}, 0, nodes, 10)
    assert [rounds_of(cell, node) for node in nodes] == [15, 2, 10]


def test_a_node_that_stays_on_does_its_further_rounds_alone() -> None:
    nodes = (NodeSpec("a"), NodeSpec("b", joins_at_round=5, rounds_after=10))
    cell = Cell("late", "4/4", {}, 0, nodes, 10)
    assert [rounds_of(cell, node) for node in nodes] == [15, 20]


# ---------------------------------------------------------------- what is there already


def test_done_cells_are_kept_and_all_others_run_again(tmp_path: Path) -> None:
    cells = some_cells(["8/0", "6/2", "4/4", "2/6"], [0])
    for cell, status in zip(cells, ("done", "stopped", "failed", "pending"), strict=True):
        save(tmp_path, cell, status)
    waiting = waiting_cells(tmp_path, cells, again=False)
    assert [cell.arm for cell in waiting] == ["6/2", "4/4", "2/6"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"evaluate__num_questions": "64"}, "evaluate.num_questions was 128, now 64"),
        ({"update__clip_low": "0.1"}, "update.clip_low was not set, now 0.1"),
    ],
)
def test_a_done_cell_of_other_settings_is_refused_by_their_name(
    tmp_path: Path, changed: dict[str, str], said: str
) -> None:
    save(tmp_path, some_cells()[0])
    with pytest.raises(StateError, match=said):
        waiting_cells(tmp_path, some_cells(**changed), again=False)


def test_a_done_cell_of_other_rounds_or_nodes_is_refused(tmp_path: Path) -> None:
    (cell,) = some_cells(["8/0"], [0])
    found = replace(cell, status="done", seconds=3.0)
    assert differences(cell, found) == []
    assert differences(replace(cell, rounds=9), found) == ["rounds was 3, now 9"]
    assert differences(replace(cell, nodes=cell.nodes[:1]), found) == ["nodes were 2, now 1"]
    others = tuple(replace(node, model="other") for node in cell.nodes)
    assert "the nodes are others" in differences(replace(cell, nodes=others), found)[0]
    assert differences(replace(cell, runner="processes"), found) == ["runner was simulation, now processes"]


def test_an_unfinished_cell_of_other_settings_is_simply_run(tmp_path: Path) -> None:
    save(tmp_path, some_cells()[0], "stopped")
    assert len(waiting_cells(tmp_path, some_cells(evaluate__num_questions="64"), again=False)) == 4


def test_again_redoes_what_differs_and_keeps_what_does_not(tmp_path: Path) -> None:
    for cell in some_cells()[:2]:
        save(tmp_path, cell)
    mixed = [some_cells()[0], *some_cells(evaluate__num_questions="64")[1:]]
    waiting = waiting_cells(tmp_path, mixed, again=True)
    assert [cell.label for cell in waiting] == ["alike 4/4 seed 0", "alike 8/0 seed 1", "alike 4/4 seed 1"]


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_a_file_that_is_no_cell_is_named_with_what_to_do(tmp_path: Path, text: str) -> None:
    folder = some_cells()[0].folder(tmp_path)
    folder.mkdir(parents=True)
    (folder / "cell.json").write_text(text)
    with pytest.raises(StateError, match=r"remove .*seed-0"):
        waiting_cells(tmp_path, some_cells(), again=False)
