"""The line and the record of each round; a disk that is full costs history, not the node."""

import json
import math
from pathlib import Path

import pytest

from swarmd.clients.policy import Saved, Updated
from swarmd.clients.update_stats import UpdateStats
from swarmd.errors import Failure
from swarmd.loops import report as loops_report
from swarmd.loops.record import Round
from swarmd.loops.report import Report, round_line
from tests.loops.fakes import a_round
from tests.node.test_status import with_peers

STATS = UpdateStats(loss=-0.1)
NO_SPACE = Failure("DiskFull", "no space", "", "")
UPDATED = Updated(7, Saved(), STATS, seconds=1.5)


def done(number: int = 7, *, updated: Updated = UPDATED, reward_external: float | None = 0.5) -> Round:
    drawn = {"reward_own": 0.25, "reward_external": reward_external, "num_external": 3, "shortfall": 1}
    return a_round(number, updated=updated, **drawn)


EVALUATION = {"mean": 0.5, "standard_error": 0.01, "num_completions": 256, "round": 7}


def report(folder: Path) -> tuple[Report, list[str]]:
    said = list[str]()
    return Report(
        folder / "rounds.jsonl", folder / "evaluations.jsonl", with_peers().shown, said.append
    ), said


def test_a_round_is_one_line_and_one_record(tmp_path: Path) -> None:
    to, said = report(tmp_path)
    to.round(done())
    to.round(done(8))
    records = [json.loads(line) for line in (tmp_path / "rounds.jsonl").read_text().splitlines()]
    assert [r["round"] for r in records] == [7, 8]
    assert len(said) == 2
    for text in (
        "round 7 ",
        "0.250 own 0.500 external",
        "4+3 (1 short)",
        "loss -0.1000",
        "1.50 s",
        "2 peers",
    ):
        assert text in said[0]


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (done(reward_external=None), "own   -   external"),
        (
            done(updated=UPDATED._replace(stats=UpdateStats(skipped="zero_advantage"))),
            "skipped: zero_advantage",
        ),
        (done(updated=UPDATED._replace(stats=UpdateStats(loss=math.nan))), "loss +0.0000   1.50 s"),
        (done(updated=UPDATED._replace(saved=Saved(failure=NO_SPACE))), "NOT SAVED"),
        (done(updated=Updated(7, Saved("round-7"))), "round 7     reward 0.250 own 0.500 external   4+3"),
    ],
)
def test_what_a_round_lacks_is_in_its_line(told: Round, text: str) -> None:
    assert text in round_line(told, 0)


def test_an_evaluation_says_its_error(tmp_path: Path) -> None:
    to, said = report(tmp_path)
    to.evaluation(EVALUATION)
    assert "0.5000 ± 0.0100 (256 completions, round 7)" in said[0]
    assert json.loads((tmp_path / "evaluations.jsonl").read_text()) == EVALUATION


def test_a_record_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    to, said = report(tmp_path / "gone")
    to.round(done())
    to.evaluation(EVALUATION)
    assert len(said) == 2


def test_a_record_cut_off_by_a_crash_costs_only_itself(tmp_path: Path) -> None:
    to, _ = report(tmp_path)
    (tmp_path / "rounds.jsonl").write_text('{"round": 5}\n{"rou')
    to.round(done())
    to.round(done(8))
    lines = (tmp_path / "rounds.jsonl").read_text().splitlines()
    assert [json.loads(line)["round"] for line in (lines[0], *lines[2:])] == [5, 7, 8]


def test_a_history_past_its_bound_is_set_aside_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to, _ = report(tmp_path)
    monkeypatch.setattr(loops_report, "HISTORY_BYTES_MAX", 3 * len(json.dumps(done().to_record())))
    for number in range(50):
        to.round(done(number))
    kept = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(kept) == 2
    assert max(kept) < 6 * len(json.dumps(done().to_record()))
