"""Two minutes in which every process of three real nodes may die at any moment, and what must still hold afterwards."""

import json
import os
import random
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from swarmd.experiment.swarms.local_swarm import LocalSwarm
from tests.e2e.watch import FAST, descendants, kill_daemon, rounds, until

SECONDS = 120
PAUSE_S = (0.5, 6.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_nodes_survive_random_deaths(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    killed = {"daemon": 0, "child": 0}
    with LocalSwarm(tmp_path, 3, seed=10 + seed, arguments=FAST) as swarm:
        # given
        swarm.start()
        for node in swarm.nodes:
            until(lambda node=node: rounds(node) >= 2, "two rounds", node)
        # when
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            time.sleep(rng.uniform(*PAUSE_S))
            number = rng.randrange(len(swarm.nodes))
            node = swarm.nodes[number]
            if rng.random() < 0.25:
                killed["daemon"] += 1
                kill_daemon(node)
                swarm.start(number)
            elif children := sorted(descendants(node.process.pid if node.process else 0)):
                killed["child"] += 1
                os.kill(rng.choice(children), signal.SIGKILL)
        # then every node goes on, with its round never going back by more than one
        for node in swarm.nodes:
            now = until(lambda node=node: rounds(node), "an answer", node)
            until(lambda node=node, now=now: rounds(node) > now + 3, "further rounds", node)
            numbers = [json.loads(line)["round"] for line in node.data_dir.rounds.read_text().splitlines()]
            assert numbers == sorted(numbers)
            with sqlite3.connect(f"file:{node.data_dir.buffer}?mode=ro", uri=True) as db:
                assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    print(
        f"\nseed {seed}: {killed['daemon']} daemons and {killed['child']} children killed, all nodes went on"
    )
