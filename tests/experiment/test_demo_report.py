"""The report of a run: figures, and a verdict that does not flatter."""

import json
from pathlib import Path
from typing import Any

import pytest

from swarmd.experiment.demo_report import (
    NodeResult,
    node_result,
    plot_rewards,
    shortcomings,
    table,
    write_report,
)


def record(number: int, reward: float, **used: int) -> dict[str, Any]:
    return {
        "round": number,
        "reward_own": reward,
        "used_by_author": used,
        "num_shared": 4 * number,
        "num_received": 3 * number,
    }


def evaluation(mean: float, error: float = 0.01) -> dict[str, Any]:
    return {"mean": mean, "standard_error": error, "num_completions": 256}


def result(name: str = "a", **changes: Any) -> NodeResult:
    """A node that learned, of a swarm of two."""
    other = {"a": "b", "b": "a"}[name]
    facts: dict[str, Any] = {
        "name": name,
        "peer_id": name,
        "rounds": 10,
        "reward_first_fifth": 0.05,
        "reward_last_fifth": 0.5,
        "shared": 40,
        "received": 30,
        "used_by_author": {other: 9},
        "rejected": 0,
        "held_out_before": (0.05, 0.01, 256),
        "held_out_after": (0.5, 0.02, 256),
        "rewards": [0.05] * 5 + [0.5] * 5,
    }
    return NodeResult(**{**facts, **changes})


def test_figures_come_from_the_rounds() -> None:
    rounds = [
        record(n, reward, b=1, c=n % 2) for n, reward in enumerate([0.1, 0.3, 0, 0, 0, 0, 0, 0, 0.8, 1.0], 1)
    ]
    found = node_result("a", "A", rounds, [evaluation(0.1), evaluation(0.4), evaluation(0.5)], 2)
    assert (found.reward_first_fifth, found.reward_last_fifth) == (0.2, 0.9)
    assert found.ratio == pytest.approx(4.5)
    assert found.used_by_author == {"b": 10, "c": 5}
    assert (found.shared, found.received, found.rejected) == (40, 30, 2)
    assert (found.held_out_before, found.held_out_after) == ((0.1, 0.01, 256), (0.5, 0.01, 256))


def test_a_node_that_did_nothing_has_figures_too() -> None:
    found = node_result("a", "A", [], [], 0)
    assert (found.rounds, found.ratio, found.held_out_gain) == (0, 0.0, None)


def test_one_evaluation_is_no_comparison() -> None:
    assert node_result("a", "A", [record(1, 0.5)], [evaluation(0.5)], 0).held_out_gain is None


def test_a_first_fifth_without_reward_does_not_make_the_ratio_infinite() -> None:
    # half a rewarded completion among the 2 rounds of 32
    assert result(reward_first_fifth=0.0).ratio == pytest.approx(0.5 / (0.5 / 64))


def test_the_gain_is_in_standard_errors_of_the_difference() -> None:
    gain = result(held_out_before=(0.1, 0.03, 1), held_out_after=(0.35, 0.04, 1)).held_out_gain
    assert gain == pytest.approx(5.0)


def test_a_run_in_which_everybody_learned_lacks_nothing() -> None:
    assert shortcomings([result("a"), result("b")]) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"reward_last_fifth": 0.2}, "rose 4.0 times, not 5"),
        ({"used_by_author": {}}, "used no rollout of 1 of 1 other nodes"),
        ({"used_by_author": {"a": 9}}, "used no rollout of 1 of 1 other nodes"),
        ({"rejected": 1}, "1 messages were rejected"),
        ({"held_out_after": None}, "was not measured"),
        ({"held_out_after": (0.06, 0.01, 256)}, "rose 0.7 standard errors"),
        ({"held_out_after": (0.01, 0.01, 256)}, "rose -2.8 standard errors"),
    ],
)
def test_what_is_missing_is_said_of_whom(changes: dict[str, Any], said: str) -> None:
    (missing,) = shortcomings([result("a", **changes), result("b")])
    assert missing.startswith("a: ")
    assert said in missing


def test_the_table_has_a_line_for_everybody() -> None:
    lines = table([result("a"), result("b", held_out_after=None, used_by_author={})]).splitlines()
    assert len(lines) == 3
    assert "0.050 -> 0.500 (+20.1 se)" in lines[1]
    assert lines[2].endswith("-")


@pytest.mark.parametrize(("changes", "learned"), [({}, True), ({"rejected": 1}, False)])
def test_the_file_holds_the_verdict_and_every_figure(
    tmp_path: Path, changes: dict[str, Any], learned: bool
) -> None:
    write_report(tmp_path / "report.json", [result("a", **changes), result("b")], seconds=3)
    document = json.loads((tmp_path / "report.json").read_text())
    assert (document["learned"], document["seconds"], len(document["nodes"])) == (learned, 3, 2)
    assert bool(document["shortcomings"]) is not learned
    assert document["nodes"][0]["ratio"] == pytest.approx(10)
    assert len(document["nodes"][0]["rewards"]) == 10


def test_the_picture_is_a_picture(tmp_path: Path) -> None:
    plot_rewards(tmp_path / "rewards.png", [result("a"), result("b", rewards=[])])
    assert (tmp_path / "rewards.png").read_bytes().startswith(b"\x89PNG")
