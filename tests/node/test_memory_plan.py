"""The memory plan: it follows the process that updates, and a kill by the kernel steps down, but not just any kill."""

import math
from typing import Any

import pytest

from swarmd.clients.events import PlanChanged
from swarmd.config import Config
from swarmd.errors import LocalError, OutOfMemory
from swarmd.node import memory_plan
from swarmd.node.children import Placement
from swarmd.node.memory_plan import FAILURES_MAX, MemoryPlan, begin, memory_choice
from swarmd.policy.model.folder import ResolvedModel
from swarmd.policy.plans.choice import Choice
from swarmd.policy.plans.room import Room
from swarmd.policy.plans.words import required
from tests.loops.parts import Loops
from tests.policy.plans.shapes import QWEN_05B, QWEN_15B

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
            NAMES,
            self.loops.progress,
            self.loops.metrics,
            self.said.append,
            lambda: kernel.count,
            lambda: self.saved_round,
        )
        self.saved_round = 0


def event(**changes: Any) -> PlanChanged:
    return PlanChanged(12, "resident", "checkpointing", "no room")._replace(**changes)


def choice_of(config: dict[str, Any], kind: str, free_gib: float) -> Choice:
    """On a card of a home, with vLLM."""
    model = ResolvedModel("m", "folder", None, None, None, "", True, None, config)
    settings = Config.model_validate({"policy": {"model": "m", "engine": "vllm"}})
    free = int(free_gib * 2**30)
    found = memory_choice(
        settings, model, Placement(kind, "cuda", "cuda", ("cuda",)), room=Room(8 * 2**30, free)
    )
    assert found is not None
    return found


def told_at_start(monkeypatch: pytest.MonkeyPatch, *, name: str = "m", device: str = "cuda") -> list[str]:
    """What a node says of its memory when it starts with a model of 0.5 B on 24 GB."""
    room = Room(24 * 2**30, int(23.5 * 2**30))
    monkeypatch.setattr(memory_plan, "look", lambda device: room)
    monkeypatch.setattr(memory_plan, "require_packages", lambda config, say: None)
    model = ResolvedModel(name, "folder", None, None, None, "", True, None, QWEN_05B)
    settings = Config.model_validate({"policy": {"model": name, "engine": "vllm"}})
    said = list[str]()
    begin(settings, model, Placement("shared", device, device, (device,)), {}, said.append)
    return said


def test_a_start_on_a_card_that_would_idle_proposes_a_larger_round(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, proposal = told_at_start(monkeypatch)
    assert plan.startswith("✓ memory     plan resident")
    assert "--mix 16/16" in proposal


@pytest.mark.parametrize(("name", "device"), [("tiny", "cuda"), ("m", "cpu")])
def test_tiny_and_a_cpu_are_offered_nothing(monkeypatch: pytest.MonkeyPatch, name: str, device: str) -> None:
    assert len(told_at_start(monkeypatch, name=name, device=device)) == 1


def engine_weights(choice: Choice) -> int:
    (row,) = (row for row in choice.plans[0].needs.rows if row.name == "engine weights")
    return row.generate_bytes


def test_a_billion_and_a_half_fit_a_card_of_8_gb() -> None:
    choice = choice_of(QWEN_15B, "shared", 7.5)
    assert (engine_weights(choice), required(choice).plan.name) == (0, "host-optimizer")
    assert required(choice).needs.peak_bytes <= 5.5 * 2**30


@pytest.mark.parametrize(("kind", "model_type"), [("split", "qwen2"), ("shared", "gpt2")])
def test_where_vllm_has_weights_of_its_own_they_are_counted(kind: str, model_type: str) -> None:
    choice = choice_of(QWEN_15B | {"model_type": model_type}, kind, 7.5)
    assert (engine_weights(choice) > 2 * 2**30, choice.chosen) == (True, None)


def test_a_change_is_said_counted_and_shown() -> None:
    parts = Parts(Kernel())
    parts.plan.changed(event())
    assert parts.said == ["! memory     plan resident -> checkpointing in round 12: no room"]
    assert parts.plan.name == parts.loops.progress.plan == "checkpointing"
    assert parts.loops.count("memory_plan", plan="checkpointing") == 1
    assert parts.loops.count("memory_plan", plan="resident") == 0
    assert parts.loops.count("memory_plan_changes_total") == 1


def test_a_kill_that_the_kernel_has_counted_steps_down_at_once() -> None:
    kernel = Kernel()
    parts = Parts(kernel)
    kernel.kill()
    parts.plan.failed("killed")
    assert parts.plan.name == "checkpointing"


@pytest.mark.parametrize("count", [7, None], ids=["not counted", "kernel does not tell"])
def test_one_kill_without_evidence_changes_nothing_and_a_second_does(count: int | None) -> None:
    parts = Parts(Kernel(count))
    parts.plan.failed("killed")
    assert (parts.plan.name, parts.said) == ("resident", [])
    parts.plan.failed("killed")
    assert parts.plan.name == "checkpointing"


def test_kills_in_different_rounds_are_chance() -> None:
    parts = Parts(Kernel())
    for number in range(5):
        parts.loops.progress.round = number
        parts.plan.failed("killed")
    assert parts.plan.name == "resident"


@pytest.mark.parametrize("phase", ["wait", "evaluate", "starting", "idle"])
def test_a_kill_outside_of_an_update_says_nothing_of_updates(phase: str) -> None:
    kernel = Kernel()
    parts = Parts(kernel, phase=phase)
    for _ in range(FAILURES_MAX - 1):
        kernel.kill()
        parts.plan.failed("killed")
    assert parts.plan.name == "resident"
    parts.loops.progress.phase = "update"
    parts.plan.failed("killed")
    assert parts.plan.name == "resident"  # the kernel's kills were of an earlier time


def test_there_is_nothing_below_the_last_plan() -> None:
    kernel = Kernel()
    parts = Parts(kernel, plan="lora")
    kernel.kill()
    parts.plan.failed("killed")
    assert (parts.plan.name, parts.said) == ("lora", [])


def test_a_node_without_a_plan_goes_on_without_one() -> None:
    kernel = Kernel()
    parts = Parts(kernel, plan="")
    kernel.kill()
    parts.plan.failed("killed")
    assert parts.plan.name == ""
    assert not math.isnan(parts.loops.count("memory_plan", plan="resident"))


def test_a_process_without_memory_steps_down_at_once_in_any_phase() -> None:
    parts = Parts(Kernel(), phase="wait")
    parts.plan.failed("memory")
    assert parts.plan.name == "checkpointing"
    assert parts.said == ["! memory     plan resident -> checkpointing in round 1: out of memory"]


def test_under_the_last_plan_three_failures_without_progress_end_the_node() -> None:
    parts = Parts(Kernel(), plan="lora")
    for _ in range(FAILURES_MAX - 1):
        parts.plan.failed("memory")
    with pytest.raises(OutOfMemory, match="3 times without progress") as caught:
        parts.plan.failed("memory")
    assert "none below it" in caught.value.why


@pytest.mark.parametrize("reason", ["crash", "hang", "start"])
def test_what_fails_again_and_again_is_tried_under_every_plan_and_then_given_up(reason: str) -> None:
    parts, plans = Parts(Kernel()), list[str]()
    for _ in range(len(NAMES) * FAILURES_MAX - 1):
        plans.append(parts.plan.name)
        parts.plan.failed(reason)
    assert plans == [name for name in NAMES for _ in range(FAILURES_MAX)][:-1]
    with pytest.raises(LocalError, match="3 times without progress") as caught:
        parts.plan.failed(reason)
    assert not isinstance(caught.value, OutOfMemory)


def test_failures_with_progress_between_them_are_no_row() -> None:
    parts = Parts(Kernel())
    for _ in range(20):
        parts.plan.failed("crash")
        parts.saved_round += 1
    assert parts.plan.name == "resident"


def test_a_machine_that_starts_no_process_costs_no_plan() -> None:
    parts = Parts(Kernel(), plan="lora")
    for _ in range(20):
        parts.plan.failed("spawn")
    assert parts.plan.name == "lora"


def test_anybodys_kills_are_no_failures_but_the_kernels_are() -> None:
    kernel = Kernel()
    parts = Parts(kernel, phase="starting")
    for _ in range(20):
        parts.plan.failed("killed")
    assert parts.plan.name == "resident"
    for _ in range(FAILURES_MAX):
        kernel.kill()
        parts.plan.failed("killed")
    assert parts.plan.name == "checkpointing"
