"""`swarmd doctor gpu` on a box that is pretended: what it says of a compiler that vLLM needs."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from swarmd.cli.main import swarmd
from swarmd.node import memory_plan
from swarmd.policy.model import devices, packages
from swarmd.policy.plans import room
from swarmd.policy.plans.room import Room
from tests.policy.model.test_devices import GPU

CARD = replace(GPU, capability=(8, 9))
LINE = "! compiler   vLLM will not start without a C compiler; apt install gcc"


@pytest.fixture(autouse=True)
def box(monkeypatch: pytest.MonkeyPatch) -> None:
    """An RTX 4090 with every package and no compiler."""
    monkeypatch.setattr(devices, "look", lambda: CARD)
    monkeypatch.setattr(room, "look", lambda device: Room(24 * 2**30, 24 * 2**30))
    monkeypatch.setattr(packages, "missing", dict)
    monkeypatch.setattr(memory_plan, "vllm_build", lambda: "cuda")
    monkeypatch.setattr(memory_plan, "toolchain_trouble", lambda: ("a C compiler", "apt install gcc"))


def said(*arguments: str) -> str:
    done = CliRunner().invoke(swarmd, ["doctor", "gpu", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_missing_compiler_is_named_with_its_fix() -> None:
    assert LINE in said().splitlines()
    assert json.loads(said("--json"))["compiler"] == [LINE]


def test_nothing_is_said_where_vllm_will_not_generate() -> None:
    assert "compiler" not in said("--set", "policy.engine=transformers")
