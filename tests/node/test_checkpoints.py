"""A node's checkpoints: space for all that stay, an interval that spares the disk, and what is said of lost rounds."""

import json
import math
import os
from pathlib import Path

import pytest

from swarmd.config.sections import CheckpointSettings
from swarmd.errors import DiskFull
from swarmd.files.datadir import DataDir
from swarmd.node.checkpoints import begin_checkpoints, checkpoint_bytes, last_round, newest_age_s
from swarmd.policy.model.folder import ResolvedModel
from swarmd.policy.plans.room import Room

MIB = 2**20


def model(num_parameters: int) -> ResolvedModel:
    return ResolvedModel("m", "folder", None, None, None, "Qwen2ForCausalLM", True, num_parameters)


TINY, HALF_BILLION = model(900_000), model(494_000_000)


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Free bytes of the disk and of the host's memory."""
    given = {"disk": 2**40, "host": 2**40}
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": given["disk"]}))
    monkeypatch.setattr("swarmd.node.checkpoints.look", lambda device: Room(given["host"], given["host"]))
    return given


def begun(tmp_path: Path, model: ResolvedModel, device: str = "cuda", **settings: float) -> tuple[float, str]:
    """The interval in seconds, and what the operator is told."""
    said = list[str]()
    pace = begin_checkpoints(CheckpointSettings(**settings), DataDir(tmp_path), model, device, said.append)
    return pace.interval_s, "".join(said)


def test_a_small_model_has_one_in_every_round_and_nothing_to_be_told(
    free: dict[str, int], tmp_path: Path
) -> None:
    assert begun(tmp_path, TINY, "cpu") == (0.0, "")


def test_a_large_one_has_them_by_time_and_the_operator_is_told(free: dict[str, int], tmp_path: Path) -> None:
    interval_s, said = begun(tmp_path, HALF_BILLION)
    assert interval_s == 900
    assert said.startswith("✓ checkpoint 6.9 GB every 15 minutes, in the background")


@pytest.mark.parametrize(("gb_per_day_max", "checkpoints_a_day"), [(1000, 144), (100, 14), (0, None)])
def test_a_days_bytes_bound_the_interval_of_the_largest_model(
    free: dict[str, int], tmp_path: Path, gb_per_day_max: float, checkpoints_a_day: int | None
) -> None:
    large = model(3_000_000_000)
    interval_s, _ = begun(tmp_path, large, gb_per_day_max=gb_per_day_max)
    if checkpoints_a_day is None:
        assert interval_s == 900
    else:  # as often as the canary may ask for one
        assert 86_400 / (interval_s * 2 / 3) * checkpoint_bytes(large, "cuda") <= gb_per_day_max * 1e9 * 1.001


def test_a_host_without_memory_for_a_copy_is_told_before_the_start(
    free: dict[str, int], tmp_path: Path
) -> None:
    free["host"] = 7 * 10**9
    _, said = begun(tmp_path, HALF_BILLION)
    assert said.startswith(
        "! checkpoint 6.9 GB every 15 minutes, and training waits for each: the host has no memory"
    )


@pytest.mark.parametrize(("num_there", "num_needed"), [(0, 4), (1, 3), (3, 1), (9, 1)])
def test_a_start_needs_space_for_the_checkpoints_that_are_still_to_come(
    free: dict[str, int], tmp_path: Path, num_there: int, num_needed: int
) -> None:
    for number in range(num_there):
        (DataDir(tmp_path).checkpoints / f"round-{number:08d}").mkdir(parents=True)
    free["disk"] = num_needed * checkpoint_bytes(TINY, "cpu") + 64 * MIB
    begun(tmp_path, TINY, "cpu")
    free["disk"] -= 1
    with pytest.raises(DiskFull, match="MiB free") as caught:
        begun(tmp_path, TINY, "cpu")
    assert caught.value.exit_code == 17


def test_the_newest_round_of_a_history_is_found_behind_lines_that_a_crash_cut_off(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path)
    assert last_round(data_dir) == 0
    data_dir.rounds.write_text(
        "".join(json.dumps({"round": n, "x": "y" * 900}) + "\n" for n in range(1, 2001))
    )
    assert last_round(data_dir) == 2000
    with data_dir.rounds.open("a") as file:
        file.write('{"round": 20')
    assert last_round(data_dir) == 2000


def test_the_newest_checkpoint_says_how_old_it_is(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path)
    assert newest_age_s(data_dir, 5000.0) == math.inf
    for number, written_s in ((3, 1000), (4, 1900)):
        folder = data_dir.checkpoints / f"round-{number:08d}"
        folder.mkdir(parents=True)
        os.utime(folder, (written_s, written_s))
    assert newest_age_s(data_dir, 2000.0) == 100
    assert newest_age_s(data_dir, 1500.0) == 0  # the clock went back
