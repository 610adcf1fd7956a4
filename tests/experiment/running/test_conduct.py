"""`swarmd experiment run` from its words to its end: choices, refusals, the dry run, what is said at the end."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from swarmd.cli.main import swarmd
from swarmd.errors import ConfigError, NoDevice, StateError
from swarmd.experiment.arms import ARMS
from swarmd.experiment.cell import identity_seed
from swarmd.experiment.presets import PRESETS
from swarmd.experiment.running import conduct as module
from swarmd.experiment.running.cells import cells_of
from swarmd.experiment.running.conduct import (
    Request,
    chosen_jobs,
    chosen_preset,
    conduct,
)
from swarmd.experiment.running.cost import duration
from swarmd.experiment.running.dry_run import describe, require_devices
from swarmd.protocol.manifest import load_manifest
from swarmd.protocol.signing import Identity
from tests.experiment.reporting.synthetic import Course, Synthetic, cell_of, rising, write_experiment
from tests.experiment.running.few import fake, quiet

SMALL = Request("smoke", arms=("8/0,4/4",), seeds="0,1", rounds=3, num_nodes=2, jobs=2)
REPORT = module.report


@pytest.fixture(autouse=True)
def no_report(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Fake cells have nothing to report on."""
    reported: list[Path] = []
    monkeypatch.setattr(module, "report", lambda root, display: reported.append(root))
    return reported


def run(request: Request, folder: Path, how: str = "done", **by_arm: str) -> tuple[int, str]:
    display, out = quiet()
    code = conduct(
        replace(request, folder=folder), argv=["swarmd"], display=display, command=fake(how, **by_arm)
    )
    return code, out.getvalue()


# ---------------------------------------------------------------- choices


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        (None, [0]),
        ("3", [0, 1, 2]),
        ("0,1,2", [0, 1, 2]),
        ("7,", [7]),
        ("10-12,5", [10, 11, 12, 5]),
        ("0", []),
    ],
)
def test_seeds_are_a_number_of_them_a_list_or_a_range(text: str | None, seeds: list[int]) -> None:
    assert chosen_preset(Request("smoke", seeds=text)).seeds == tuple(seeds)


@pytest.mark.parametrize("text", ["a", "1,b", "5-3", "0-99999", "-1,"])
def test_seeds_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        chosen_preset(Request("smoke", seeds=text))


def test_an_unknown_scenario_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        run(replace(SMALL, scenarios="alike,lat"), tmp_path)
    assert "did you mean 'late'" in str(refused.value)
    assert "specialised" in str(refused.value)


def test_the_command_line_changes_the_preset() -> None:
    settings = (("policy.model", "other"), ("update.clip_low", "0.1"))
    preset = chosen_preset(Request("paper", rounds=5, num_nodes=2, runner="simulation", settings=settings))
    assert (preset.rounds, preset.num_nodes, preset.runner, preset.model) == (5, 2, "simulation", "other")
    assert preset.settings["update.clip_low"] == "0.1"
    assert "policy.model" not in preset.settings
    assert not preset.one_device_each


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown preset 'huge'"):
        chosen_preset(Request("huge"))


def test_jobs_are_as_asked_or_as_many_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    smoke = PRESETS["smoke"]
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)))
    assert chosen_jobs(5, smoke, 1) == 5
    assert chosen_jobs(None, smoke, 3) <= 3
    assert chosen_jobs(None, replace(smoke, runner="processes"), 8) == 1
    assert chosen_jobs(None, PRESETS["paper"], 8) == 1
    monkeypatch.setattr(module, "look", lambda device: replace(_room(), free_bytes=5 * 2**29))
    assert chosen_jobs(None, smoke, 8) == 2


def _room() -> Any:
    from swarmd.policy.plans.room import Room

    return Room(None, None)


# ---------------------------------------------------------------- runs


def test_a_run_ends_with_its_report(tmp_path: Path, no_report: list[Path]) -> None:
    code, said = run(SMALL, tmp_path)
    assert code == 0
    assert said.startswith(f"4 cells of 2 nodes and 3 rounds in {tmp_path}; 2 at a time")
    assert no_report == [tmp_path]
    assert json.loads((tmp_path / "experiment.json").read_text())["preset"] == "smoke"


@pytest.mark.parametrize(
    ("course", "code", "said"),
    [
        (rising(end=0.5), 0, "Every node's reward rose"),
        (rising(start=0.2), 1, "NOT shown:\nnode-0: reward rose"),
    ],
)
def test_a_demo_in_which_nobody_learned_is_a_failure(
    tmp_path: Path, course: Course, code: int, said: str
) -> None:
    # given cells of two nodes that used each other's rollouts, and whose rewards took this course
    peers = tuple(Identity.from_seed(identity_seed(0, number)).peer_id for number in (0, 1))
    what = Synthetic(course, noise=0.0, seed_noise=0.0, used_of=peers)
    written = write_experiment(
        tmp_path / "written", {"4/4": what}, seeds=[0], num_nodes=2, num_rounds=8, evaluate_every=8
    )

    def command(folder: Path, deadline_s: float | None) -> list[str]:
        for number in (0, 1):
            shutil.copytree(cell_of(written, "4/4") / f"node-{number}", folder / f"node-{number}")
        return fake()(folder, deadline_s)

    # when
    display, out = quiet()
    demo = Request("demo", rounds=8, num_nodes=2, runner="simulation", folder=tmp_path / "demo")
    assert conduct(demo, argv=["swarmd"], display=display, command=command) == code
    # then
    assert said in out.getvalue()


def test_the_same_command_again_has_nothing_to_do(tmp_path: Path) -> None:
    run(SMALL, tmp_path)
    code, said = run(SMALL, tmp_path, "fails")
    assert (code, "4 are done already" in said) == (0, True)


def test_what_failed_is_run_again(tmp_path: Path) -> None:
    code, said = run(SMALL, tmp_path, arm_8_0="fails")
    assert code == 1
    assert "failed: alike 8/0 seed 0: exit code 3" in said
    assert "the same command goes on from there" in said
    code, said = run(SMALL, tmp_path)
    assert (code, "2 are done already" in said) == (0, True)


def test_another_specification_is_refused_unless_asked_for(tmp_path: Path) -> None:
    run(SMALL, tmp_path)
    with pytest.raises(StateError, match="rounds was 3, now 4"):
        run(replace(SMALL, rounds=4), tmp_path)
    assert run(replace(SMALL, rounds=4, again=True), tmp_path)[0] == 0


def test_more_arms_are_added_to_those_that_are_done(tmp_path: Path) -> None:
    run(SMALL, tmp_path)
    code, said = run(replace(SMALL, arms=("paper",)), tmp_path)
    assert (code, "8 cells" in said, "4 are done already" in said) == (0, True, True)


def test_a_budget_that_is_too_small_starts_nothing_and_says_what_is_missing(
    tmp_path: Path, no_report: list[Path]
) -> None:
    code, said = run(replace(SMALL, minutes=0.01), tmp_path)
    assert code == 75
    assert "missing: alike 8/0 seed 0, alike 4/4 seed 0, alike 8/0 seed 1, alike 4/4 seed 1" in said
    assert no_report == [tmp_path]


def test_without_a_finished_cell_there_is_no_report(tmp_path: Path) -> None:
    run(replace(SMALL, minutes=0.01), tmp_path)
    display, out = quiet()
    REPORT(tmp_path, display)
    assert "no report: " in out.getvalue()
    assert not (tmp_path / "report").exists()


def test_models_that_a_scenario_needs_are_built_before_its_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[set[str]] = []
    monkeypatch.setattr(module, "ensure", lambda names, root, say: asked.append(names))
    run(replace(SMALL, scenarios="mixed", num_nodes=4), tmp_path)
    assert asked == [{"tiny", "narrow", "wide"}]


# ---------------------------------------------------------------- the dry run


def test_a_dry_run_starts_nothing(tmp_path: Path) -> None:
    code, said = run(replace(SMALL, dry_run=True), tmp_path / "new", "fails")
    assert code == 0
    assert not (tmp_path / "new").exists()
    assert "alike 4/4 seed 1" in said
    assert "experience.mix=4/4" in said
    assert "This machine: has what it takes" in said
    assert "ESTIMATE: " in said


def paper(num_gpus: int, **changes: Any) -> str:
    preset = replace(PRESETS["paper"], **changes)
    arms = [ARMS["8/0"], ARMS["4/4"]]
    cells = cells_of(preset, arms, [0], ["alike"])
    return "\n".join(
        describe(preset, arms, cells, load_manifest("reasoning-paper"), jobs=1, num_gpus=num_gpus)
    )


def test_the_papers_setting_is_the_papers() -> None:
    said = paper(8)
    assert "2 cells of 8 nodes and 2000 rounds, processes, model Qwen2.5-0.5B" in said
    for setting in ("completions=8", "clip_low=0.2", "clip_high=0.28", "weight_decay=0"):
        assert setting in said
    names = {dataset.name for dataset in load_manifest("reasoning-paper").datasets}
    assert names == {
        "base_conversion", "basic_arithmetic", "arc_1d", "bf", "propositional_logic",
        "fraction_simplification", "decimal_arithmetic", "calendar_arithmetic", "binary_matrix",
    }  # fmt: skip
    assert all(name in said for name in names)


def test_the_papers_time_is_an_estimate() -> None:
    # start 180 s; a round: 1.28 s the longest completion, 8 x (8 x 256 + 300) tokens trained at 30,000/s, 1.5 s the rest;
    # 21 evaluations of 256 x 256 tokens at 50,000/s
    seconds = 180 + 2000 * (1.28 + 8 * 2348 / 30_000 + 1.5) + 21 * 65536 / 50_000
    assert f"alike 4/4 seed 0  {duration(seconds)}" in paper(8)
    assert f"ESTIMATE: {duration(2 * seconds)} with 1 cells at a time" in paper(
        8
    )  # 8/0 waits as long for its longest


def test_what_the_paper_has_otherwise_or_does_not_state_is_listed_with_what_was_chosen() -> None:
    listed = paper(8).split("other than in the paper, or not stated there")[1]
    for word in ("temperature", "token limit", "loss normalisation", "learning rate", "seeds", "prompt"):
        assert word in listed
    for word in ("pool of externals", "gradient norm", "importance weights", "guards"):
        assert word in listed


@pytest.mark.parametrize(
    ("num_gpus", "said"), [(8, "has what it takes"), (3, "has 3 GPUs, and 8 nodes need 8")]
)
def test_whether_this_machine_will_do_is_told(num_gpus: int, said: str) -> None:
    assert f"This machine: {said}" in paper(num_gpus)


def test_a_real_paper_run_needs_its_gpus() -> None:
    with pytest.raises(NoDevice, match="has 0 GPUs, and 8 nodes need 8"):
        require_devices(PRESETS["paper"], num_gpus=0)
    require_devices(replace(PRESETS["paper"], num_nodes=2), num_gpus=2)
    require_devices(replace(PRESETS["paper"], runner="simulation"), num_gpus=1)
    require_devices(PRESETS["laptop"], num_gpus=0)


# ---------------------------------------------------------------- the command


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(swarmd, ["experiment", "run", *arguments])


def test_the_command_passes_its_options_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[Request] = []

    def take(request: Request, **others: Any) -> int:
        seen.append(request)
        return 75

    monkeypatch.setattr(module, "conduct", take)
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    result = invoke(
        "--preset", "laptop", "--arms", "8/0", "--arms", "x:update.clip_low=0.1,update.clip_high=0.3", "--seeds", "3",
        "--scenario", "late", "--rounds", "9", "--nodes", "4", "--minutes", "1.5", "--jobs", "2", "--runner", "processes",
        "--set", "evaluate.completions=2", "--again", "--dry-run", str(tmp_path),
    )  # fmt: skip
    assert result.exit_code == 75
    assert seen == [
        Request(
            "laptop", ("8/0", "x:update.clip_low=0.1,update.clip_high=0.3"), "3", "late", 9, 4, 1.5, 2, "processes",
            (("evaluate.completions", "2"),), again=True, dry_run=True, folder=tmp_path,
        )
    ]  # fmt: skip


def test_the_command_knows_every_preset() -> None:
    assert all(name in invoke("--help").output for name in PRESETS)


def test_a_real_dry_run_through_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    result = invoke("--preset", "paper", "--dry-run")
    assert result.exit_code == 0
    assert "alike 4/4 self seed 2" in result.output
