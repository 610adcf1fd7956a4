"""Generation beside the update: two children, weights handed over through a file, staleness within its bound."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swarmd.experiment.swarms.local_swarm import LocalNode, LocalSwarm
from tests.e2e.watch import FAST, restarts, rounds, status, until

# Weights are handed over in a folder of /dev/shm that has the node's identity in its name: no other run may have the same.
SEED = os.getpid()
SPLIT = (*FAST, "--solo", "--placement", "split", "--set", "update.learning_rate=1e-3")


@pytest.fixture(scope="module")
def swarm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSwarm]:
    with LocalSwarm(tmp_path_factory.mktemp("swarm"), 1, SEED, arguments=SPLIT) as swarm:
        swarm.start()
        yield swarm


def test_split_placement_overlaps_within_one_update_and_survives_either_childs_death(
    swarm: LocalSwarm,
) -> None:
    node = swarm.nodes[0]
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


def test_weights_handed_over_leave_no_file_behind(swarm: LocalSwarm) -> None:
    node = swarm.nodes[0]
    assert node.process is not None
    assert handed_over(node)
    swarm.stop(evaluate=False)
    assert node.process.returncode == 0
    assert handed_over(node) == []


def handed_over(node: LocalNode) -> list[Path]:
    """The folders in which this node hands weights over."""
    places = (Path("/dev/shm"), node.data_dir.root)
    return [path for place in places for path in place.glob(f"swarmd-weights-{node.identity.peer_id}-*")]
