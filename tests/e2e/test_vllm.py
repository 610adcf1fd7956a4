"""Real nodes that generate with vLLM's real CPU build: rounds, a crash within the engine, and the death of the daemon."""

import importlib.util
import json
import os
import signal
from pathlib import Path

import pytest

from swarmd.experiment.swarms.local_swarm import LocalNode, LocalSwarm
from tests.e2e.watch import FAST, alive, descendants, restarts, rounds, status, until

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed"),
]
# An engine's start imports for a quarter of a minute of computing, on machines that others use as well.
PATIENCE_S = 420.0
VLLM = (*FAST, "--solo", "--set", "policy.engine=vllm", "--set", "update.learning_rate=1e-3")


def version(node: LocalNode) -> int:
    records = [json.loads(line) for line in node.data_dir.rounds.read_text().splitlines()]
    return records[-1]["policy_version"]


@pytest.mark.parametrize("placement", ["shared", "split"])
def test_a_node_outlives_its_engine_and_no_engine_outlives_its_node(tmp_path: Path, placement: str) -> None:
    # a seed of its own: the folder of /dev/shm where weights are handed over is named after the identity
    with LocalSwarm(tmp_path, 1, os.getpid(), arguments=(*VLLM, "--placement", placement)) as swarm:
        swarm.start()
        node = swarm.nodes[0]
        until(lambda: rounds(node) >= 3, "three rounds", node, patience_s=PATIENCE_S)
        assert "vllm 0." in node.output()
        before, done = restarts(node, "generation"), rounds(node)
        os.kill(status(node)["workers"]["generation"]["pid"], signal.SIGSEGV)
        until(lambda: restarts(node, "generation") > before, "a new engine", node, patience_s=PATIENCE_S)
        until(lambda: rounds(node) > done + 3, "rounds with the new engine", node, patience_s=PATIENCE_S)
        # a step needs an informative rollout, which is rare at first; after it weights are handed over
        until(lambda: version(node) > 0, "a step", node, patience_s=PATIENCE_S)
        updated = rounds(node)
        until(lambda: rounds(node) > updated + 1, "rounds with other weights", node, patience_s=PATIENCE_S)
        assert node.process is not None
        below = descendants(node.process.pid)
        assert status(node)["workers"]["generation"]["pid"] in below
        os.kill(node.process.pid, signal.SIGKILL)
        until(lambda: not any(map(alive, below)), "the end of every child of the killed daemon", node)
