"""`make test-gpu` asks a machine for torch, transformers and pydantic only, and without CUDA says that it has shown nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# What this project installs beside these three, and what its extras add.
ABSENT = [
    "pytest",
    "msgpack",
    "zstandard",
    "trio",
    "nacl",
    "vllm",
    "peft",
    "bitsandbytes",
    "trl",
    "libp2p",
]
BARE = f"""
import runpy, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
runpy.run_module("tests.gpu", run_name="__main__", alter_sys=True)
"""


def bare(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-c", BARE, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
    )


def test_without_cuda_every_test_says_so_and_the_status_is_no_success() -> None:
    done = bare()
    assert done.returncode == 5, done.stdout + done.stderr
    assert "Nothing was shown" in done.stdout
    assert re.search(
        r"\n0 passed, 0 failed, (\d\d) skipped\n  \1 skipped: .*finds no CUDA device", done.stdout
    )


@pytest.mark.slow
def test_a_rehearsal_on_the_cpu_passes_and_names_the_missing_packages() -> None:
    done = bare("--rehearse")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing was shown about a GPU" in done.stdout
    assert "skipped: not installed: peft" in done.stdout
    assert re.search(
        r"skipped: not installed: .*\bnacl, .*trio, zstandard\n", done.stdout
    )  # a whole node's packages
