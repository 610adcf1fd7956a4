"""Checkpoints by time on a real node: a kill at ten moments damages nothing, and each loss is told to the round."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from swarmd.experiment.swarms.local_swarm import LocalSwarm
from swarmd.policy.state.checkpoints import damage, newest_valid
from tests.e2e.history import numbers, told, went_back
from tests.e2e.watch import FAST, kill_daemon, rounds, status, until

INTERVAL_S = 3.0
SETTINGS = ("--solo", "--set", f"checkpoint.interval_s={INTERVAL_S}", "--set", "trust.canary=off")


@pytest.mark.slow
def test_a_kill_at_ten_moments_damages_nothing_and_every_lost_round_is_told(tmp_path: Path) -> None:
    rng = random.Random(0)
    with LocalSwarm(tmp_path, 1, seed=3, arguments=(*FAST, *SETTINGS)) as swarm:
        swarm.start()
        (node,) = swarm.nodes
        for moment in range(10):
            until(lambda: rounds(node) > 0, "a round", node)
            time.sleep(INTERVAL_S + moment / 9 * INTERVAL_S * rng.uniform(0.9, 1.1))
            if moment % 2:
                kill_daemon(node)
                assert [damage(path) for path in node.data_dir.checkpoints.glob("round-*")] in (
                    [""],
                    [""] * 2,
                )
                assert newest_valid(node.data_dir.checkpoints).path is not None
                swarm.start(0)
            else:
                os.kill(status(node)["workers"]["generation"]["pid"], signal.SIGKILL)
            before = len(numbers(node))
            until(lambda before=before: len(numbers(node)) > before + 3, "further rounds", node)
        history, losses = numbers(node), told(node)
    # where the history goes back, the loss was told, and nothing else was
    backs = went_back(node)
    print(f"\nlost by ten kills: {[num for num, _ in losses]} rounds, of {len(history)}")
    assert [newest for _, newest in losses] == [newest for _, newest in backs]
    assert all(num >= back for (num, _), (back, _) in zip(losses, backs, strict=True))
    assert len(losses) >= 5
