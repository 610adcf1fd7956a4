"""A node whose policy fell is killed before it acts on it: its next start measures at once, goes back, and stays there."""

import hashlib
import json
from pathlib import Path
from typing import Any

from swarmd.experiment.swarms.local_swarm import LocalNode, LocalSwarm
from tests.e2e.watch import FAST, kill, rounds, until

CANARY = (*FAST, "--set", "trust.canary_rounds=2", "--set", "trust.canary_questions=8")


def newest(node: LocalNode) -> Path:
    return max(path for path in node.data_dir.checkpoints.glob("round-*"))


def state(checkpoint: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((checkpoint / "state.json").read_text())["state"]
    return found


def remember_better_days(checkpoint: Path) -> None:
    """What a node would have found that was at its best once, and has used external rollouts since."""
    path, manifest_path = checkpoint / "state.json", checkpoint / "manifest.json"
    content, manifest = json.loads(path.read_text()), json.loads(manifest_path.read_text())
    content["state"]["canary"] |= {"best": [1.0] * 8, "num_external": 4, "measured_round": 0}
    data = json.dumps(content).encode()
    path.write_bytes(data)
    manifest["files"]["state.json"] = {"size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    manifest_path.write_text(json.dumps(manifest))


def test_a_fall_outlives_a_kill_and_is_undone_once(tmp_path: Path) -> None:
    with LocalSwarm(tmp_path, 1, arguments=CANARY) as swarm:
        swarm.start()
        node = swarm.nodes[0]
        until(lambda: rounds(node) >= 5, "five rounds", node)
        kill(node)
        number, good = state(newest(node))["round"], state(newest(node))["keep_round"]
        assert good is not None
        remember_better_days(newest(node))

        swarm.start(extra=("--rounds", str(number + 1)))  # the way back is a round: nothing comes after it
        until(lambda: not node.running, "its end", node)
        assert f"went back to round {good}" in node.output()
        after = state(newest(node))
        assert (after["round"], after["canary"]["backoff"]["falls"]) == (number + 1, [number + 1])
        assert after["keep_round"] == good
        weights = [
            (node.data_dir.checkpoints / f"round-{round:08d}" / "model.safetensors").read_bytes()
            for round in (good, number + 1)
        ]
        assert weights[0] == weights[1]
