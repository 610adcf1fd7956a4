"""A folder of cells as it may really be: torn, doubled, unfinished, foreign."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swarmd.errors import ConfigError
from swarmd.experiment.reporting.results import read_experiment
from tests.experiment.reporting.synthetic import Synthetic, cell_of, write_experiment

ARMS = {"8/0": Synthetic(), "4/4": Synthetic()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_experiment(tmp_path, ARMS, seeds=range(2), num_nodes=2, num_rounds=20)


def change(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_cells_are_found_by_what_they_say_they_are(folder: Path) -> None:
    found = read_experiment(folder)
    assert (found.scenarios, found.arms("alike")) == (["alike"], ["4/4", "8/0"])
    cell = found.of("alike", "4/4")[1]
    assert (cell.spec.seed, cell.spec.rounds, len(cell.nodes)) == (1, 20, 2)
    assert cell.spec.settings == {"mix.arm": "4/4", "update.learning_rate": "0.0003"}
    assert cell.nodes[0].evaluations is not None
    assert cell.nodes[0].evaluations.round_E.tolist() == [0, 10, 20]
    assert found.facts["preset"] == "laptop"


def test_a_folder_without_cells_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no cell(.|\n)*cell\.json(.|\n)*experiment run"):
        read_experiment(tmp_path)


def test_a_folder_without_finished_cells_says_how_far_they_got(tmp_path: Path) -> None:
    write_experiment(tmp_path, ARMS, seeds=[0], num_rounds=20, status="stopped")
    with pytest.raises(
        ConfigError, match=r"none of the 2 cells(.|\n)*stopped, 20 of 20 rounds(.|\n)*resumes"
    ):
        read_experiment(tmp_path)


def test_seeds_that_were_not_run_are_an_error(folder: Path) -> None:
    with pytest.raises(ConfigError, match="no cell has a seed among 7, 8"):
        read_experiment(folder, [7, 8])


def test_only_the_seeds_asked_for_are_read(folder: Path) -> None:
    assert {cell.spec.seed for cell in read_experiment(folder, [1, 9]).cells} == {1}


@pytest.mark.parametrize("status", ["stopped", "failed", "pending"])
def test_unfinished_cells_are_listed_with_their_reason(folder: Path, status: str) -> None:
    path = cell_of(folder, "4/4", 1) / "cell.json"
    change(path, status=status, num_rounds_done=7, error="out of\x1b[31m memory")
    found = read_experiment(folder)
    (gap,) = found.left_out
    assert (gap.place, gap.status, gap.reason) == (
        "alike/4-4/seed-1",
        status,
        "7 of 20 rounds done: out of?[31m memory",
    )
    assert list(found.of("alike", "4/4")) == [0]


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("cell.json", "{", "Invalid JSON"),
        ("cell.json", "[]", "should be"),
        ("cell.json", '{"status": "done", "seed": 1}', "scenario: Field required"),
        ("node-0/rounds.jsonl", "", "finished no round"),
        ("node-0/rounds.jsonl", "nonsense\n", "Invalid JSON"),
        (
            "node-0/rounds.jsonl",
            '{"round": 1, "reward_own": "much"}\n',
            "columns.reward_own: Input should be a valid number",
        ),
        ("node-0/rounds.jsonl", '{"round": 1, "reward_own": Infinity}\n', "infinite"),
        ("node-0/evaluations.jsonl", '{"round": 1, "mean": null}\n', "mean: Input should be a valid number"),
        (
            "node-0/evaluations.jsonl",
            '{"round": 1, "mean": 0.5, "by_dataset": {"a": 3}}\n',
            "by_dataset.a: Input should be a valid array",
        ),
    ],
)
def test_unreadable_cells_are_listed_with_their_reason(
    folder: Path, file: str, text: str, reason: str
) -> None:
    (cell_of(folder, "4/4", 1) / file).write_text(text)
    (gap,) = read_experiment(folder).left_out
    assert gap.status == "unreadable"
    assert reason in gap.reason


def test_a_missing_file_is_a_reason_too(folder: Path) -> None:
    (cell_of(folder, "4/4", 1) / "node-1" / "rounds.jsonl").unlink()
    (gap,) = read_experiment(folder).left_out
    assert "FileNotFoundError" in gap.reason


def test_a_cell_that_is_there_twice_counts_once(folder: Path) -> None:
    change(cell_of(folder, "4/4", 1) / "cell.json", seed=0)
    found = read_experiment(folder)
    assert [gap.status for gap in found.left_out] == ["twice"]
    assert list(found.of("alike", "4/4")) == [0]


def test_of_a_round_done_twice_the_later_record_counts(folder: Path) -> None:
    path = cell_of(folder, "4/4", 0) / "node-0" / "rounds.jsonl"
    with path.open("a") as file:
        file.write(json.dumps({**json.loads(path.read_text().splitlines()[4]), "reward_own": 0.75}) + "\n")
    node = read_experiment(folder).of("alike", "4/4")[0].nodes[0]
    assert node.round_R.tolist() == list(range(1, 21))
    assert node.columns["reward_own"][4] == 0.75


def test_a_torn_last_line_is_left_out(folder: Path) -> None:
    with (cell_of(folder, "4/4", 0) / "node-0" / "rounds.jsonl").open("a") as file:
        file.write('{"round": 21, "rew')
    assert read_experiment(folder).of("alike", "4/4")[0].nodes[0].round_R[-1] == 20


def test_names_are_bounded_and_cannot_steer_a_terminal(folder: Path) -> None:
    change(cell_of(folder, "4/4", 0) / "cell.json", arm="\x1b[2J" + "x" * 100)
    (name,) = (arm for arm in read_experiment(folder).arms("alike") if "x" in arm)
    assert name == "?[2J" + "x" * 56


def test_columns_that_older_records_lack_are_not_numbers(folder: Path) -> None:
    path = cell_of(folder, "4/4", 0) / "node-0" / "rounds.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    del records[3]["num_generated_tokens"]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    node = read_experiment(folder).of("alike", "4/4")[0].nodes[0]
    assert np.isnan(node.column("num_generated_tokens")).all()
    assert not np.isnan(node.column("reward_own")).any()


def test_a_folder_without_facts_is_read_and_says_so(folder: Path) -> None:
    (folder / "experiment.json").unlink()
    found = read_experiment(folder)
    assert len(found.cells) == 4
    assert "cannot be read" in found.facts["problem"]
