"""The ladder: which plans a device has, in which order, and what each changes."""

import pytest

from swarmd.errors import ConfigError
from swarmd.policy.plans.ladder import PLAN_NAMES, after, at_least, ladder, named

BASE = {"micro_batch_tokens": 4096, "head_tile": 1024, "optimizer": "adamw"}


def names(device: str, **options: object) -> list[str]:
    return [plan.name for plan in ladder(device, **options)]  # type: ignore[arg-type]


def test_a_gpu_with_vllm_has_every_plan() -> None:
    assert names("cuda", can_sleep=True) == list(PLAN_NAMES)


def test_a_cpu_has_no_engine_to_put_to_sleep_and_no_other_host() -> None:
    assert names("cpu", can_sleep=False) == ["resident", "checkpointing", "adam-8bit", "lora"]


def test_kinds_of_optimizer_that_are_not_installed_have_no_plan() -> None:
    assert names("cuda", can_sleep=False, optimizers=["adamw", "host"]) == [
        "resident",
        "checkpointing",
        "host-optimizer",
    ]


def test_no_plan_goes_back_to_an_optimizer_that_needs_more() -> None:
    plans = ladder("cuda", can_sleep=True, optimizer="host")
    assert [(plan.name, plan.optimizer) for plan in plans] == [
        ("resident", "host"),
        ("time-share", "host"),
        ("checkpointing", "host"),
        ("lora", "lora"),
    ]


def test_each_plan_saves_what_those_before_it_save() -> None:
    plans = ladder("cuda", can_sleep=True)
    assert [plan.engine_sleeps for plan in plans] == [False] + [True] * 5
    assert [plan.checkpointing for plan in plans] == [False] * 2 + [True] * 4


def test_what_plans_change() -> None:
    plans = ladder("cuda", can_sleep=True)
    smaller = {"gradient_checkpointing": True, "micro_batch_tokens": 1024, "head_tile": 256}
    assert plans[0].settings(BASE) == plans[1].settings(BASE) == {}
    assert plans[2].settings(BASE) == smaller
    assert plans[5].settings(BASE) == {**smaller, "optimizer": "lora"}


def test_adapters_learn_ten_times_as_fast() -> None:
    base = {**BASE, "learning_rate": 2e-6}
    rates = {p.name: p.settings(base).get("learning_rate") for p in ladder("cuda", can_sleep=True)}
    assert rates.pop("lora") == pytest.approx(2e-5)
    assert set(rates.values()) == {None}


def test_smaller_has_a_limit() -> None:
    plan = ladder("cpu", can_sleep=False)[1]
    changed = plan.settings({**BASE, "micro_batch_tokens": 80, "head_tile": 16})
    assert (changed["micro_batch_tokens"], changed["head_tile"]) == (64, 16)


@pytest.mark.parametrize("name", ["time-share", "host-optimizer", "nonsense", ""])
def test_a_plan_that_is_not_here_is_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError, match="resident, checkpointing, adam-8bit, lora") as caught:
        named(ladder("cpu", can_sleep=False), name)
    assert caught.value.exit_code == 2


def test_the_way_down_ends() -> None:
    plans = ladder("cpu", can_sleep=False)
    seen, name = [], "resident"
    while (plan := after(plans, name)) is not None:
        seen.append(name := plan.name)
    assert seen == ["checkpointing", "adam-8bit", "lora"]


@pytest.mark.parametrize(
    ("name", "found"),
    [("time-share", "checkpointing"), ("host-optimizer", "lora"), ("lora", "lora"), ("?", "resident")],
)
def test_a_plan_that_this_process_lacks_gives_way_to_the_next(name: str, found: str) -> None:
    assert at_least(ladder("cpu", can_sleep=False), name).name == found


def test_the_last_plan_stands_for_all_after_it() -> None:
    assert at_least(ladder("cpu", can_sleep=False, optimizers=["adamw"]), "lora").name == "checkpointing"
