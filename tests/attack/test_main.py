"""A part that breaks off is a failed check, and costs no other part its report."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.attack import __main__ as program
from tests.attack.bout import Bout
from tests.attack.checks import Check

PLAN = program.Plan(["bombs"], 1.0, 0, [0], 10)


def broken(*arguments: Any) -> Any:
    raise RuntimeError("node-1 ended")


def bout(passed: bool) -> Any:
    return lambda *arguments: Bout(checks=[Check("held", passed)])


@pytest.fixture(autouse=True)
def learned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "run_pairs", lambda *arguments: ([], [Check("learned", True)]))


def test_a_bout_that_breaks_off_fails_and_the_rewards_are_compared_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "run_bout", broken)
    assert program.run(tmp_path / "out", PLAN) == 1
    told = json.loads((tmp_path / "out" / "report.json").read_text())["checks"]
    assert [(check["passed"], check["detail"]) for check in told] == [(False, "node-1 ended"), (True, "")]


def test_the_bout_is_in_the_report_before_the_rewards_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "run_bout", bout(True))
    monkeypatch.setattr(program, "run_pairs", broken)
    with pytest.raises(RuntimeError):
        program.run(tmp_path / "out", PLAN)
    assert json.loads((tmp_path / "out" / "report.json").read_text())["checks"][0]["name"] == "held"


@pytest.mark.parametrize("passed", [True, False])
def test_one_failed_check_is_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passed: bool
) -> None:
    monkeypatch.setattr(program, "run_bout", bout(passed))
    assert program.run(tmp_path / "out", PLAN) == int(not passed)


def test_nothing_to_do_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["attack", "--no-bout", "--seeds", ""])
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert ended.value.code == 2


def test_falls_are_a_part_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "run_falls", lambda *arguments: ({}, [Check("nine tenths", False)]))
    monkeypatch.setattr(program, "falls_table", lambda *arguments: "")
    assert program.run(tmp_path / "out", program.Plan([], 1.0, 0, [], 10, falls=True)) == 1
