"""Generation beside the update: two children, weights handed over through a file, staleness within its bound."""

import json
import os
import signal
from pathlib import Path

from swarmd.experiment.swarms.local_swarm import LocalSwarm
from tests.e2e.watch import FAST, restarts, rounds, status, until

SPLIT = (*FAST, "--solo", "--placement", "split", "--set", "update.learning_rate=1e-3")


def test_split_placement_overlaps_within_one_update_and_survives_either_childs_death(tmp_path: Path) -> None:
    with LocalSwarm(tmp_path, 1, arguments=SPLIT) as swarm:
        swarm.start()
        node = swarm.nodes[0]
        until(lambda: rounds(node) >= 8, "eight rounds", node)
        for worker in ("update", "generation"):
            before, done = restarts(node, worker), rounds(node)
            os.kill(status(node)["workers"][worker]["pid"], signal.SIGKILL)
            until(
                lambda worker=worker, before=before: restarts(node, worker) > before, f"a new {worker}", node
            )
            until(lambda done=done: rounds(node) > done + 3, f"rounds with the new {worker}", node)
    records = [json.loads(line) for line in node.data_dir.rounds.read_text().splitlines()]
    # a step was taken now and then, so versions moved, and some batch was generated while the update before it ran
    assert records[-1]["policy_version"] > 0
    assert {record["staleness"] for record in records} <= {0, 1}
    assert any(record["staleness"] == 1 for record in records)
    # the engine's log-probs crossed both processes: the ratio covers what an update in between changed
    ratios = [record["mismatch_ratio_mean"] for record in records if record.get("num_steps")]
    assert all(0.8 < ratio < 1.25 for ratio in ratios)
    assert any(abs(ratio - 1) > 1e-4 for ratio in ratios)


def test_weights_handed_over_leave_no_file_behind(tmp_path: Path) -> None:
    before = set(Path("/dev/shm").glob("swarmd-weights-*")) if Path("/dev/shm").is_dir() else set()
    with LocalSwarm(tmp_path, 1, arguments=(*SPLIT, "--rounds", "3")) as swarm:
        swarm.start()
        node = swarm.nodes[0]
        until(lambda: not node.running, "the end of three rounds", node)
        assert node.process is not None
        assert node.process.returncode == 0
    after = set(Path("/dev/shm").glob("swarmd-weights-*")) if Path("/dev/shm").is_dir() else set()
    assert after <= before
