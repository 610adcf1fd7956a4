"""A model of exactly Qwen2.5-0.5B's shape goes through a whole round as a real node on the CPU: what it costs is printed."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from swarmd.experiment.swarms.local_swarm import LocalSwarm
from tests.e2e.manifests import sealed_toml
from tests.e2e.watch import status, until
from tests.gpu.node import MANIFEST

BUILD = "import sys; from tests.gpu.node import *; build_policy(Path(sys.argv[1]), HALF_BILLION)"


@pytest.mark.slow
def test_half_a_billion_parameters_go_through_a_round(tmp_path: Path) -> None:
    # given
    model, manifest = tmp_path / "model", tmp_path / "swarm.toml"
    subprocess.run([sys.executable, "-c", BUILD, str(model)], check=True)
    manifest.write_bytes(sealed_toml(MANIFEST))
    arguments = (
        "--model", str(model), "--device", "cpu", "--swarm", str(manifest), "--solo", "--rounds", "4", "--mix", "2/0",
        "--completions", "4", "--set", "policy.tokens_max=24", "--set", "evaluate.num_questions=0",
    "--set", "experience.reward_spread_min=0",
    )  # fmt: skip
    # when
    began, peak_bytes = time.monotonic(), 0
    with LocalSwarm(tmp_path / "nodes", 1, arguments=arguments) as swarm:
        swarm.start()
        node = swarm.nodes[0]

        def finished() -> bool:
            nonlocal peak_bytes
            pid = status(node).get("workers", {}).get("generation", {}).get("pid")
            if pid:
                peak_bytes = max(peak_bytes, resident_peak(pid))
            return not node.running

        until(finished, "four rounds", node, patience_s=1500)
        assert node.process is not None
        assert node.process.returncode == 0, node.output()
    # then at least one round took an optimizer step on 494 M parameters, and its checkpoint is there
    rounds = [json.loads(line) for line in node.data_dir.rounds.read_text().splitlines()]
    steps = [r for r in rounds if not r["skipped"]]
    print(f"\n0.5 B on the CPU: peak {peak_bytes / 2**30:.1f} GiB, {time.monotonic() - began:.0f} s in all")
    for r in rounds:
        print(
            {
                key: r.get(key)
                for key in ("round", "seconds", "seconds_update", "seconds_checkpoint", "skipped", "loss")
            }
        )
    assert steps
    assert peak_bytes > 4 * 494_032_768 * 4  # weights, gradients and both moments in fp32
    assert list(node.data_dir.checkpoints.glob("*/optimizer.safetensors"))


def resident_peak(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)
