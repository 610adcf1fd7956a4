"""The demo's bars: figures of a node, and a verdict that does not flatter."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swarmd.experiment.cell import Cell, NodeSpec, identity_seed
from swarmd.experiment.reporting.learned import Learned, shortcomings, table
from swarmd.experiment.reporting.results import Evaluations, FinishedCell, FinishedNode, read_experiment
from swarmd.protocol.signing import Identity
from tests.experiment.reporting.synthetic import Synthetic, write_experiment

PEERS = [Identity.from_seed(identity_seed(3, number)).peer_id for number in (0, 1)]


def held_out(*means: float) -> Evaluations:
    """Evaluations with a standard error of 0.03."""
    rounds_E, means_E = np.arange(len(means), dtype=float), np.array(means)
    return Evaluations(rounds_E, means_E, np.full(len(means), 0.03), {}, {})


def node(number: int = 0, rewards: list[float] | None = None, **changes: Any) -> FinishedNode:
    """A node that learned, of a swarm of two."""
    rewards_R = np.array([0.05] * 5 + [0.5] * 5 if rewards is None else rewards)
    found = FinishedNode(
        spec=NodeSpec(f"node-{number}"), round_R=np.arange(1, len(rewards_R) + 1, dtype=float), columns={"reward_own": rewards_R},
        evaluations=held_out(0.1, 0.2, 0.5), used_by_author={PEERS[1 - number]: 9}, num_rejected=0,
    )  # fmt: skip
    return replace(found, **changes)


def cell(*nodes: FinishedNode) -> FinishedCell:
    specs = tuple(node.spec for node in nodes)
    return FinishedCell(Cell("alike", "4/4", {}, 3, specs, 10), nodes)


def test_figures_come_from_the_rounds_and_the_first_and_last_evaluation() -> None:
    found = Learned.of(node(rewards=[0.1, 0.3, 0, 0, 0, 0, 0, 0, 0.8, 1.0]))
    assert (found.first_fifth, found.last_fifth, found.ratio) == (0.2, 0.9, pytest.approx(4.5))
    assert (found.held_out_before, found.held_out_after) == (0.1, 0.5)
    assert found.gain_errors == pytest.approx(0.4 / (0.03 * 2**0.5))


def test_a_first_fifth_without_reward_does_not_make_the_ratio_infinite() -> None:
    # half a rewarded completion among the 2 rounds of 32
    assert Learned.of(node(rewards=[0.0] * 5 + [0.5] * 5)).ratio == pytest.approx(0.5 / (0.5 / 64))


def test_a_swarm_in_which_everybody_learned_lacks_nothing() -> None:
    assert shortcomings(cell(node(0), node(1))) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rewards": [0.05] * 5 + [0.2] * 5}, "rose 4.0 times, not 5"),
        ({"used_by_author": {}}, "used no rollout of 1 of 1 other nodes"),
        ({"used_by_author": {PEERS[0]: 9}}, "used no rollout of 1 of 1 other nodes"),
        ({"num_rejected": 1}, "1 messages were rejected"),
        ({"evaluations": None}, "was not measured"),
        ({"evaluations": held_out(0.5)}, "was not measured"),
        ({"evaluations": held_out(0.1, 0.12)}, "rose 0.5 standard errors"),
        ({"evaluations": held_out(0.2, 0.08)}, "rose -2.8 standard errors"),
    ],
)
def test_what_is_missing_is_said_of_whom(changes: dict[str, Any], said: str) -> None:
    (missing,) = shortcomings(cell(node(0, **changes), node(1)))
    assert missing.startswith("node-0: ")
    assert said in missing


def test_the_table_has_a_line_for_everybody() -> None:
    rows = table(cell(node(0), node(1, evaluations=None, used_by_author={}))).rows
    assert [row[:2] for row in rows] == [["node-0", "10"], ["node-1", "10"]]
    assert [row[5] for row in rows] == ["9", "0"]
    assert [row[8] for row in rows] == ["9.4", "–"]


def test_a_folder_tells_whose_rollouts_a_node_used(tmp_path: Path) -> None:
    folder = write_experiment(tmp_path, {"4/4": Synthetic(used_of=("one", "other"))}, seeds=[0])
    (found,) = read_experiment(folder).cells
    assert found.nodes[0].used_by_author == {"one": 40, "other": 40}
    assert found.nodes[0].num_rejected == 0
