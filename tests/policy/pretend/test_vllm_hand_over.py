"""vLLM takes the learner's weights from the same device without a wait and without a copy through the host."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed"),
]


def test_a_hand_over_to_vllm_stays_on_the_device_and_waits_for_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.policy.pretend.vllm_hand_over", str(tmp_path / "model")]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    found = json.loads(next(line for line in done.stdout.splitlines() if line.startswith('{"syncs"')))
    assert found["tensors"] > 20
    assert found["as_learnt"] == [False, True]
    assert (found["syncs"], found["uploads"], found["background"]) == ({}, {}, 0)
    assert found["stayed"]  # CUDA graphs keep these pointers
