"""The memory plan: it follows the process that updates, and a kill by the kernel steps down, but not just any kill."""

import math
from typing import Any

import pytest

from swarmd.clients.events import PlanChanged
from swarmd.node.memory_plan import MemoryPlan
from tests.loops.parts import Loops

NAMES = ("resident", "checkpointing", "lora")


class Kernel:
    """Counts kills for lack of memory; `count` None: it does not tell."""

    def __init__(self, count: int | None = 7) -> None:
        self.count = count

    def kill(self) -> None:
        if self.count is not None:
            self.count += 1


class Parts:
    def __init__(self, kernel: Kernel, *, phase: str = "update", plan: str = "resident") -> None:
        self.loops, self.said = Loops(), list[str]()
        self.loops.progress.phase, self.loops.progress.plan = phase, plan
        self.plan = MemoryPlan(
            NAMES, self.loops.progress, self.loops.metrics, self.said.append, lambda: kernel.count
        )


def event(**changes: Any) -> PlanChanged:
    return PlanChanged(12, "resident", "checkpointing", "no room")._replace(**changes)


def test_a_change_is_said_counted_and_shown() -> None:
    parts = Parts(Kernel())
    parts.plan.changed(event())
    assert parts.said == ["! memory     out of memory in round 12: plan resident -> checkpointing"]
    assert parts.plan.name == parts.loops.progress.plan == "checkpointing"
    assert parts.loops.count("memory_plan", plan="checkpointing") == 1
    assert parts.loops.count("memory_plan", plan="resident") == 0
    assert parts.loops.count("memory_plan_changes_total") == 1


def test_a_kill_that_the_kernel_has_counted_steps_down_at_once() -> None:
    kernel = Kernel()
    parts = Parts(kernel)
    kernel.kill()
    parts.plan.killed()
    assert parts.plan.name == "checkpointing"


@pytest.mark.parametrize("count", [7, None], ids=["not counted", "kernel does not tell"])
def test_one_kill_without_evidence_changes_nothing_and_a_second_does(count: int | None) -> None:
    parts = Parts(Kernel(count))
    parts.plan.killed()
    assert (parts.plan.name, parts.said) == ("resident", [])
    parts.plan.killed()
    assert parts.plan.name == "checkpointing"


def test_kills_in_different_rounds_are_chance() -> None:
    parts = Parts(Kernel())
    for number in range(5):
        parts.loops.progress.round = number
        parts.plan.killed()
    assert parts.plan.name == "resident"


@pytest.mark.parametrize("phase", ["wait", "evaluate", "starting", "idle"])
def test_a_kill_outside_of_an_update_says_nothing_of_updates(phase: str) -> None:
    kernel = Kernel()
    parts = Parts(kernel, phase=phase)
    for _ in range(3):
        kernel.kill()
        parts.plan.killed()
    assert parts.plan.name == "resident"
    parts.loops.progress.phase = "update"
    parts.plan.killed()
    assert parts.plan.name == "resident"  # the kernel's kills were of an earlier time


def test_there_is_nothing_below_the_last_plan() -> None:
    kernel = Kernel()
    parts = Parts(kernel, plan="lora")
    kernel.kill()
    parts.plan.killed()
    assert (parts.plan.name, parts.said) == ("lora", [])


def test_a_node_without_a_plan_goes_on_without_one() -> None:
    kernel = Kernel()
    parts = Parts(kernel, plan="")
    kernel.kill()
    parts.plan.killed()
    assert parts.plan.name == ""
    assert not math.isnan(parts.loops.count("memory_plan", plan="resident"))
