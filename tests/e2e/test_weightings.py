"""Four real nodes learn from each other under every external weighting; the figures are printed (`make test-slow`)."""

import json
from pathlib import Path
from typing import Any

import pytest

from swarmd.experiment.swarms.local_swarm import LocalNode, LocalSwarm
from tests.e2e.watch import FAST, rounds, until

WEIGHTINGS = ("as-own", "positive", "tapered")


def history(node: LocalNode) -> list[dict[str, Any]]:
    """The node's records; one that is being written while the node is at work does not count yet."""
    lines = node.data_dir.rounds.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def run(root: Path, num_nodes: int, num_rounds: int, *settings: str) -> list[list[dict[str, Any]]]:
    """Every node's records, after all of them have done this many rounds."""
    arguments = [*FAST, *(part for setting in settings for part in ("--set", setting))]
    with LocalSwarm(root, num_nodes, 5, arguments) as swarm:
        swarm.start()
        until(
            lambda: all(rounds(node) >= num_rounds for node in swarm.nodes),
            f"{num_rounds} rounds of every node",
            *swarm.nodes,
            patience_s=420,
        )
        swarm.stop(evaluate=False)
        return [history(node) for node in swarm.nodes]


def fifths(records: list[dict[str, Any]]) -> tuple[float, float]:
    """Mean reward of own completions in the first and in the last fifth of the rounds."""
    rewards = [record["reward_own"] for record in records]
    num = len(rewards) // 5
    return sum(rewards[:num]) / num, sum(rewards[-num:]) / num


def with_externals(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        record for record in records if record["num_external"] and record["external_weight_mean"] is not None
    ]


@pytest.mark.slow
@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_four_nodes_learn_under_every_weighting(tmp_path: Path, weighting: str) -> None:
    nodes = run(tmp_path, 4, 40, f"update.external_weighting={weighting}")
    first, last = (sum(values) / len(nodes) for values in zip(*map(fifths, nodes), strict=True))
    weights = [record["external_weight_mean"] for node in nodes for record in with_externals(node)]
    zeros = [record["external_weight_zero"] for node in nodes for record in with_externals(node)]
    print(
        f"\n{weighting}: reward {first:.4f} -> {last:.4f}, rounds {[len(node) for node in nodes]},"
        f" external weight {sum(weights) / len(weights):.3f}, zero {sum(zeros) / len(zeros):.3f}"
    )
    for node in nodes:
        assert sum(not record["skipped"] for record in with_externals(node)) >= 20
        assert len({author for record in node for author in record["used_by_author"]}) == 3
        assert all(record["rejected"] == 0 for record in node)
    assert last > 3 * first
    assert all(0 <= weight <= 1 for weight in weights)
    assert (weighting == "positive") == (max(zeros) > 0)
    assert (weighting == "as-own") == (min(weights) == 1)
