"""Faults of a GPU in a real node's processes: it heals, steps down where that helps, says so, and does not go round in circles."""

import json
from pathlib import Path

import pytest

from swarmd.experiment.swarms.local_swarm import LocalNode, LocalSwarm
from swarmd.node.memory_plan import FAILURES_MAX
from tests.e2e.watch import FAST, restarts, rounds, until

# Python runs this at each start. Once a module of the policy's is loaded, one method of it fails in the first processes.
CUSTOMISE = """
import importlib.abc, importlib.machinery, os, sys
MODULE, CLASS, METHOD, FAULT, CALL, NUM, MARKS = {plan!r}

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        load = spec.loader.exec_module
        def exec_module(module):
            load(module)
            kind = getattr(module, CLASS)
            method, calls = getattr(kind, METHOD), []
            def failing(self, *args, **kwargs):
                calls.append(1)
                if len(calls) == CALL and len(os.listdir(MARKS)) < NUM:
                    open(os.path.join(MARKS, str(os.getpid())), "x").close()
                    exec(FAULT)
                return method(self, *args, **kwargs)
            setattr(kind, METHOD, failing)
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder())
"""
LEARNER = ("swarmd.policy.update.learner", "Learner", "update")
ENGINE = ("swarmd.policy.generation.transformers_engine", "TransformersEngine", "generate")
STICKY = "raise RuntimeError('CUDA error: an illegal memory access was encountered')"
# What `vllm_engine` does when vLLM has no memory left, in `generate`, `wake_up` or under new weights.
NO_MEMORY = (
    "from swarmd.errors import OutOfMemory; from swarmd.processes.ends import end_process; "
    "end_process(OutOfMemory('vLLM failed in generation', 'CUDA out of memory'))"
)


def faulty(tmp_path: Path, where: tuple[str, str, str], fault: str, num: int, call: int = 3) -> LocalSwarm:
    """One node, in whose first `num` processes the third (or `call`) call of a method fails."""
    marks, customs = tmp_path / "marks", tmp_path / "customs"
    marks.mkdir()
    customs.mkdir()
    text = CUSTOMISE.replace("{plan!r}", repr((*where, fault, call, num, str(marks))))
    (customs / "sitecustomize.py").write_text(text)
    swarm = LocalSwarm(tmp_path, 1, seed=4, arguments=(*FAST, "--solo"))
    swarm.environment_of = {0: {"PYTHONPATH": str(customs)}}
    return swarm


def plans(node: LocalNode) -> list[str]:
    """The plans of the node's rounds, each as often as it was taken up."""
    lines = node.data_dir.rounds.read_text().splitlines() if node.data_dir.rounds.exists() else []
    found = [json.loads(line)["plan"] for line in lines]
    return [plan for plan, before in zip(found, ["", *found], strict=False) if plan != before]


@pytest.mark.slow
def test_a_lost_device_costs_a_process_and_no_round(tmp_path: Path) -> None:
    with faulty(tmp_path, LEARNER, STICKY, num=2) as swarm:
        swarm.start()
        (node,) = swarm.nodes
        until(lambda: rounds(node) >= 8, "eight rounds", node)
        assert restarts(node, "generation") == 2
        numbers = [json.loads(line)["round"] for line in node.data_dir.rounds.read_text().splitlines()]
        assert numbers == list(range(1, len(numbers) + 1))
        assert plans(node) == ["resident"]
        assert "! lost" not in node.output()


@pytest.mark.slow
def test_an_engine_without_memory_steps_down_and_says_so(tmp_path: Path) -> None:
    with faulty(tmp_path, ENGINE, NO_MEMORY, num=2) as swarm:
        swarm.start()
        (node,) = swarm.nodes
        until(lambda: rounds(node) >= 8, "eight rounds", node)
        assert restarts(node, "generation") == 2
        told = [line for line in node.output().splitlines() if "! memory     plan" in line]
        assert [line.partition(" in round")[0] for line in told] == [
            "! memory     plan resident -> small-batches",
            "! memory     plan small-batches -> checkpointing",
        ]
        assert plans(node)[-1] == "checkpointing"


@pytest.mark.slow
def test_an_engine_that_never_has_memory_ends_the_node_in_the_end(tmp_path: Path) -> None:
    with faulty(tmp_path, ENGINE, NO_MEMORY, num=1000, call=1) as swarm:
        swarm.start()
        (node,) = swarm.nodes
        process = node.process
        assert process is not None
        until(lambda: process.poll() is not None, "its end", node)
        assert process.returncode == 14
        assert "times without progress" in node.output()
        assert (
            len(list((tmp_path / "marks").iterdir())) == 4 + FAILURES_MAX
        )  # each plan once, the last one so often
