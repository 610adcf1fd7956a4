"""Generation beside the update: two children, weights handed over through a file, staleness within its bound."""

import json
import os
import signal
from typing import Any

from swarmd.experiment.swarms.local_swarm import LocalNode
from tests.e2e.watch import restarts, rounds, status, until


def test_split_placement_overlaps_within_one_update_and_survives_either_childs_death(node: LocalNode) -> None:
    until(lambda: rounds(node) >= 8, "eight rounds", node)
    for worker in ("update", "generation"):
        before, done = restarts(node, worker), rounds(node)
        os.kill(status(node)["workers"][worker]["pid"], signal.SIGKILL)
        until(lambda worker=worker, before=before: restarts(node, worker) > before, f"a new {worker}", node)
        until(lambda done=done: rounds(node) > done + 3, f"rounds with the new {worker}", node)
    # Some batch was generated while an update ran. The engine's log-probs crossed both processes: the ratio covers what that
    # update changed. A step needs an informative rollout, which is rare at first.
    until(lambda: any(abs(ratio - 1) > 1e-4 for ratio in ratios(node)), "a batch of one step ago", node)
    records = records_of(node)
    assert records[-1]["policy_version"] > 0
    assert {record["staleness"] for record in records} == {0, 1}
    assert all(0.8 < ratio < 1.25 for ratio in ratios(node))


def records_of(node: LocalNode) -> list[dict[str, Any]]:
    return [json.loads(line) for line in node.data_dir.rounds.read_text().splitlines()]


def ratios(node: LocalNode) -> list[float]:
    """Of trainer to engine, for each round that took a step."""
    return [record["mismatch_ratio_mean"] for record in records_of(node) if record.get("num_steps")]
