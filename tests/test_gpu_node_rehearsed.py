"""The GPU test of a whole node, rehearsed on the CPU: the code of the test itself runs here, with a model of a toy's size."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
@pytest.mark.parametrize("name", ["NodeOnCuda", "NodeWithVllmOnCuda"])
def test_the_nodes_gpu_test_passes_on_a_cpu(name: str) -> None:
    if "Vllm" in name and importlib.util.find_spec("vllm") is None:
        pytest.skip("vLLM is not installed")
    command = [sys.executable, "-m", "tests.gpu", "--rehearse", f"test_node.{name}."]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 0 failed, 0 skipped" in done.stdout
