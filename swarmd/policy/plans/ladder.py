"""The plans in order, from the fastest to the one that needs least, and how each has an update carried out. No torch."""

import importlib.util
from collections.abc import Sequence
from typing import NamedTuple

from swarmd.config import UpdateSection
from swarmd.errors import ConfigError
from swarmd.optimizers import OPTIMIZER, OPTIMIZERS, PLAN_NAMES, OptimizerKind

# Forwarded at once where the operator names no number. On a CPU, 2,048 update 0.9 M parameters within 3 % of the speed of 4,096,
# in 190 MiB instead of 320.
_ROW_TOKENS, _ROW_TOKENS_ON_CPU = 4096, 2048
# `small-batches` and `checkpointing` divide micro-batches and tiles of logits by these. Smaller rows use the device worse: a
# quarter of 4,096 tokens still fills a home card's matrix units, an eighth does not.
_HALF, _QUARTER, _SMALLEST = 2, 4, 64


class Execution(NamedTuple):
    """How an update is carried out: all that a memory plan decides, and nothing that changes the gradient of full training.

    Attributes:
        micro_batch_tokens: forwarded tokens a micro-batch.
        head_tile: predicting positions whose logits exist at once. 1,024 x 152k x 4 bytes is 0.6 GB.
        checkpointing: activations are computed a second time instead of kept.
        optimizer: a name of `swarmd.optimizers`.
        lora_rank: of adapters, where the optimizer trains those.
        engine_sleeps: the engine gives its cache back during an update, and its weights where they are a copy.
    """

    micro_batch_tokens: int
    head_tile: int = 1024
    checkpointing: bool = False
    optimizer: str = OPTIMIZERS[0].name
    lora_rank: int = 32
    engine_sleeps: bool = False

    @property
    def kind(self) -> OptimizerKind:
        """The optimizer's row."""
        return OPTIMIZER[self.optimizer]


class Plan(NamedTuple):
    """One way to generate and to update on one device; `name` as the operator writes it."""

    name: str
    how: Execution


def ladder(
    update: UpdateSection,
    device: str,
    *,
    can_sleep: bool,
    optimizers: Sequence[OptimizerKind] = OPTIMIZERS,
) -> tuple[Plan, ...]:
    """The plans that make sense on `device` with these optimizers; each saves what those before it save, and something more.

    `can_sleep` says whether the engine has memory of its own on the update's device, and can give it back.
    """
    resident = Execution(_row_tokens(update, device))
    sleeping = resident._replace(engine_sleeps=can_sleep)
    least = _smaller(sleeping, _QUARTER)._replace(checkpointing=True)
    first, shared, small, checkpointing = PLAN_NAMES[:4]
    return (
        Plan(first, resident),
        *([Plan(shared, sleeping)] if can_sleep else []),
        Plan(small, _smaller(sleeping, _HALF)),
        Plan(checkpointing, least),
        *(
            Plan(kind.plan, least._replace(optimizer=kind.name))
            for kind in OPTIMIZERS[1:]
            if kind in optimizers and device.partition(":")[0] not in kind.not_on
        ),
    )


def _row_tokens(update: UpdateSection, device: str) -> int:
    if update.micro_batch_tokens != "auto":
        return update.micro_batch_tokens
    return _ROW_TOKENS_ON_CPU if device == "cpu" else _ROW_TOKENS


def _smaller(how: Execution, divisor: int) -> Execution:
    def part(num: int) -> int:
        return min(num, max(num // divisor, _SMALLEST))

    return how._replace(micro_batch_tokens=part(how.micro_batch_tokens), head_tile=part(how.head_tile))


def installed() -> list[OptimizerKind]:
    """The optimizers whose packages are there."""
    return [kind for kind in OPTIMIZERS if importlib.util.find_spec(kind.package) is not None]


def named(plans: Sequence[Plan], name: str) -> Plan:
    """The plan of that name. Raises ConfigError when this device has none such."""
    for plan in plans:
        if plan.name == name:
            return plan
    known = ", ".join(plan.name for plan in plans)
    raise ConfigError(
        f"there is no plan {name!r} here",
        "it saves nothing on this device, or does not work there",
        f"plans: {known}",
    )


def after(plans: Sequence[Plan], name: str) -> Plan | None:
    """The next plan in order, None after the last."""
    names = [plan.name for plan in plans]
    place = names.index(name) + 1 if name in names else len(names)
    return plans[place] if place < len(plans) else None


def at_least(plans: Sequence[Plan], name: str) -> Plan:
    """The plan of that name, or where there is none such here the next one in order that there is."""
    place = PLAN_NAMES.index(name) if name in PLAN_NAMES else 0
    return next((plan for plan in plans if PLAN_NAMES.index(plan.name) >= place), plans[-1])
