"""The ladder: which plans a device has, in which order, and what each changes."""

import pytest

from swarmd.config import UpdateSection
from swarmd.errors import ConfigError
from swarmd.optimizers import OPTIMIZER, OPTIMIZERS, PLAN_NAMES
from swarmd.policy.plans.ladder import Execution, after, at_least, ladder, named

UPDATE = UpdateSection()


def names(device: str, **options: object) -> list[str]:
    return [plan.name for plan in ladder(UPDATE, device, **options)]  # type: ignore[arg-type]


def test_a_gpu_with_vllm_has_every_plan() -> None:
    assert names("cuda", can_sleep=True) == list(PLAN_NAMES)


def test_a_cpu_has_no_engine_to_put_to_sleep_and_no_other_host() -> None:
    assert names("cpu", can_sleep=False) == [
        "resident",
        "small-batches",
        "checkpointing",
        "adam-8bit",
        "lora",
    ]


def test_kinds_of_optimizer_that_are_not_installed_have_no_plan() -> None:
    assert names("cuda", can_sleep=False, optimizers=[OPTIMIZER["adamw"], OPTIMIZER["host"]]) == [
        "resident",
        "small-batches",
        "checkpointing",
        "host-optimizer",
    ]


def test_each_plan_saves_what_those_before_it_save() -> None:
    plans = ladder(UPDATE, "cuda", can_sleep=True)
    assert [plan.how.engine_sleeps for plan in plans] == [False] + [True] * 6
    assert [plan.how.checkpointing for plan in plans] == [False] * 3 + [True] * 4


def test_what_plans_change() -> None:
    plans = [plan.how for plan in ladder(UPDATE, "cuda", can_sleep=True)]
    resident = Execution(4096)
    smaller = Execution(1024, head_tile=256, checkpointing=True, engine_sleeps=True)
    sleeping = resident._replace(engine_sleeps=True)
    assert plans[:4] == [
        resident,
        sleeping,
        sleeping._replace(micro_batch_tokens=2048, head_tile=512),
        smaller,
    ]
    assert plans[6] == smaller._replace(optimizer="lora")


@pytest.mark.parametrize(("device", "tokens"), [("cpu", 2048), ("cuda:1", 4096), ("mps", 4096)])
def test_a_cpu_takes_smaller_rows_unless_told(device: str, tokens: int) -> None:
    assert ladder(UPDATE, device, can_sleep=False)[0].how.micro_batch_tokens == tokens
    told = ladder(UpdateSection(micro_batch_tokens=4096), device, can_sleep=False)
    assert told[0].how.micro_batch_tokens == 4096


def test_smaller_has_a_limit() -> None:
    plan = ladder(UpdateSection(micro_batch_tokens=80), "cpu", can_sleep=False)[2]
    assert plan.how.micro_batch_tokens == 64


@pytest.mark.parametrize("name", ["time-share", "host-optimizer", "nonsense", ""])
def test_a_plan_that_is_not_here_is_refused_by_name(name: str) -> None:
    with pytest.raises(
        ConfigError, match="resident, small-batches, checkpointing, adam-8bit, lora"
    ) as caught:
        named(ladder(UPDATE, "cpu", can_sleep=False), name)
    assert caught.value.exit_code == 2


def test_the_way_down_ends() -> None:
    plans = ladder(UPDATE, "cpu", can_sleep=False)
    seen, name = [], "resident"
    while (plan := after(plans, name)) is not None:
        seen.append(name := plan.name)
    assert seen == ["small-batches", "checkpointing", "adam-8bit", "lora"]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("time-share", "small-batches"),
        ("checkpointing", "checkpointing"),
        ("host-optimizer", "lora"),
        ("lora", "lora"),
        ("?", "resident"),
    ],
)
def test_a_plan_that_this_process_lacks_gives_way_to_the_next(name: str, found: str) -> None:
    assert at_least(ladder(UPDATE, "cpu", can_sleep=False), name).name == found


def test_the_last_plan_stands_for_all_after_it() -> None:
    assert (
        at_least(ladder(UPDATE, "cpu", can_sleep=False, optimizers=OPTIMIZERS[:1]), "lora").name
        == "checkpointing"
    )
