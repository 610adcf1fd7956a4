"""Running out of memory: the next plan, the same training set, and no weight changed by what failed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from swarmd.clients.events import PlanChanged, SlowPath
from swarmd.config import Config
from swarmd.errors import ConfigError, OutOfMemory
from swarmd.policy.plans.ladder import Execution
from swarmd.policy.service import PolicyService
from swarmd.policy.state.checkpoints import read_state
from swarmd.policy.update import parallel
from swarmd.policy.update.learner import Learner
from swarmd.policy.update.self_check import SelfCheck
from tests.policy.services import own_rollout, parameters, service, started

Fits = Callable[[Execution], bool]
PLANS = ["resident", "small-batches", "checkpointing", "adam-8bit", "lora"]


def only_fits(patch: pytest.MonkeyPatch, fits: Fits, *, steps_first: int = 0) -> list[Execution]:
    """Passes with a gradient run out of memory unless `fits`, or they are the first few; returns what was tried."""
    real, tried = Learner._run, list[Execution]()

    def run(self: Learner, groups: Any, *, with_gradient: bool) -> Any:
        if with_gradient:
            tried.append(self.how)
            if len(tried) > steps_first and not fits(self.how):
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB\nmore")
        return real(self, groups, with_gradient=with_gradient)

    patch.setattr(Learner, "_run", run)
    return tried


def after_one_round(model_dir: Path, **options: Any) -> tuple[PolicyService, dict[str, Any]]:
    policy = started(model_dir, **options)
    wire = own_rollout(policy, "one?")
    assert policy.update([wire], round=1, state={}, save="no").to_record()["skipped"] is None
    return policy, wire


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_a_round_that_does_not_fit_is_done_under_the_next_plan(
    model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[Any] = []
    policy, wire = after_one_round(model_dir, events=events)
    tried = only_fits(monkeypatch, lambda how: how.checkpointing)
    answer = policy.update([wire], round=2, state={}, save="no").to_record()
    assert (answer["plan"], answer["skipped"], answer["policy_version"]) == ("checkpointing", None, 2)
    assert policy.about().plan == "checkpointing"
    assert [how.micro_batch_tokens for how in tried] == [2048, 1024, 512]
    why = "CUDA out of memory. Tried to allocate 2.00 GiB"
    assert events == [
        PlanChanged(2, "resident", "small-batches", why),
        PlanChanged(2, "small-batches", "checkpointing", why),
    ]


def test_a_slow_update_is_told_once_with_its_cost(model_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "swarmd.policy.update.learner.check_packed_pass", lambda *_: SelfCheck(False, "softcap")
    )
    events: list[Any] = []
    policy, wire = after_one_round(model_dir, events=events)
    stats = policy.update([wire], round=2, state={}, save="no").stats
    assert stats is not None
    assert stats.slow_cost is not None
    assert stats.slow_cost > 1
    assert events == [SlowPath(stats.slow_cost, "softcap")]


def test_the_same_step_is_taken_as_if_it_had_fitted_at_once(model_dir: Path) -> None:
    found = []
    for fails in (False, True):
        policy, wire = after_one_round(model_dir)
        with pytest.MonkeyPatch.context() as patch:
            only_fits(patch, lambda how, fails=fails: how.checkpointing or not fails)
            policy.update([wire], round=2, state={}, save="no")
        found.append(parameters(policy))
    # moments and weights went into the second attempt as they were: what differs is the order of sums
    for name, expected in found[0].items():
        torch.testing.assert_close(found[1][name], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["adam-8bit", "lora"])
def test_another_optimizer_takes_over_where_that_is_the_plan(
    model_dir: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    policy, wire = after_one_round(model_dir)
    only_fits(monkeypatch, lambda how: how.optimizer == kind)
    assert policy.update([wire], round=2, state={}, save="no").to_record()["plan"] == kind
    later = policy.update([wire], round=3, state={}, save="no").to_record()
    assert (later["plan"], later["policy_version"], later["skipped"]) == (kind, 3, None)
    assert policy.generate(["one?"], 2, 1.0, 4, 1).policy_version == 3


def test_a_round_that_fits_under_no_plan_changes_nothing(
    model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[Any] = []
    policy, wire = after_one_round(model_dir, events=events)
    before = parameters(policy)
    with monkeypatch.context() as patch:
        tried = only_fits(patch, lambda how: False)
        with pytest.raises(OutOfMemory, match="under any plan"):
            policy.update([wire], round=2, state={}, save="no")
    assert len(tried) == len(PLANS)
    assert equal(before, parameters(policy))
    assert [event.after for event in events] == [*PLANS[1:], "resident"]
    answer = policy.update([wire], round=3, state={}, save="no").to_record()
    assert (answer["plan"], answer["policy_version"], answer["skipped"]) == ("resident", 2, None)


def test_steps_that_were_taken_before_memory_ran_out_are_not_taken_twice(
    model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = started(model_dir, minibatches=1, epochs=3)
    wire = own_rollout(policy, "one?")
    with monkeypatch.context() as patch:
        tried = only_fits(patch, lambda how: False, steps_first=1)
        answer = policy.update([wire], round=1, state={}, save="no").to_record()
    assert (answer["num_steps"], answer["skipped"], answer["policy_version"]) == (1, "oom", 1)
    assert (len(tried), answer["plan"]) == (2, "small-batches")
    assert policy.update([wire], round=2, state={}, save="no").to_record()["num_steps"] == 3


def test_an_optimizer_that_is_not_installed_is_passed_over(
    model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, wire = after_one_round(model_dir)
    build = parallel.Learner

    def without_8_bits(model: Any, config: Config, how: Execution, **options: Any) -> Learner:
        if how.optimizer == "adam-8bit":
            raise ConfigError("plan adam-8bit needs bitsandbytes")
        return build(model, config, how, **options)

    monkeypatch.setattr(parallel, "Learner", without_8_bits)
    only_fits(monkeypatch, lambda how: how.optimizer == "lora")
    assert policy.update([wire], round=2, state={}, save="no").to_record()["plan"] == "lora"


@pytest.mark.usefixtures("own_self_check")
def test_the_self_check_does_not_take_lack_of_memory_for_a_verdict(
    model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = started(model_dir)
    wire = own_rollout(policy, "one?")
    words, calls = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes", []

    def fails_once(*_: Any) -> Any:
        calls.append(1)
        raise RuntimeError(words)

    with monkeypatch.context() as patch:
        patch.setattr("swarmd.policy.update.self_check.packed_pass", fails_once)
        with pytest.raises(OutOfMemory):
            policy.update([wire], round=1, state={}, save="no")
    assert len(calls) == len(PLANS)
    assert policy.update([wire], round=2, state={}, save="no").to_record()["fast_path"]


def test_the_checkpoint_remembers_the_plan(
    model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = started(model_dir, checkpoints=tmp_path, plan_key="resident 1234")
    wire = own_rollout(policy, "one?")
    only_fits(monkeypatch, lambda how: how.optimizer == "lora")
    policy.update([wire], round=1, state={"round": 1}, save="now")
    assert read_state(tmp_path) == {"round": 1, "plan": "lora", "plan_key": "resident 1234"}
    again = service(model_dir, checkpoints=tmp_path, plan="lora")
    assert (again.start().policy_version, again.about().plan) == (1, "lora")
    assert again.update([wire], round=2, state={}, save="no").to_record()["skipped"] is None


def test_the_engine_sleeps_where_the_plan_says_so(model_dir: Path) -> None:
    slept: list[str] = []
    for plan in ("resident", "time-share"):
        policy = started(model_dir, plan=plan, plans=["resident", "time-share"])
        assert policy._engine is not None
        policy._engine.sleep = lambda plan=plan: bool(slept.append(plan))  # type: ignore[method-assign]
        policy.update([own_rollout(policy, "one?")], round=1, state={}, save="no")
    assert slept == ["time-share"]


def test_every_plan_of_a_cpu_learns(model_dir: Path) -> None:
    changed = set()
    for plan in PLANS:
        policy = started(model_dir, plan=plan)
        before = parameters(policy)
        answer = policy.update([own_rollout(policy, "one?")], round=1, state={}, save="no").to_record()
        assert (answer["plan"], answer["skipped"], answer["fast_path"]) == (plan, None, True), plan
        if not equal(before, parameters(policy)):
            changed.add(plan)
    assert changed == set(PLANS)
