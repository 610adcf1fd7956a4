"""The plans in order, from the fastest to the one that needs least, and the settings each stands for. Imports no torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from swarmd.errors import ConfigError

Optimizer = Literal["adamw", "adam-8bit", "host", "lora"]
OPTIMIZERS: tuple[Optimizer, ...] = ("adamw", "adam-8bit", "host", "lora")
PLAN_NAMES = ("resident", "time-share", "checkpointing", "adam-8bit", "host-optimizer", "lora")
# What `checkpointing` divides micro-batches and tiles of logits by. Smaller rows use the device worse: a quarter of 4,096 tokens
# still fills a home card's matrix units, an eighth does not.
_SMALLER, _SMALLEST = 4, 64
# Adapters want about ten times the learning rate of full training, whatever the model and the rank (Thinking Machines, "LoRA
# Without Regret", 2025). At the same rate a node that steps down would all but stop learning.
_LORA_RATE = 10


@dataclass(frozen=True)
class Plan:
    """One way to generate and to update on one device.

    Attributes:
        name: as the operator writes it.
        engine_sleeps: the engine gives its weights and cache back during an update.
        checkpointing: activations are computed a second time instead of kept, in smaller micro-batches.
        optimizer: see `UpdateSettings.optimizer`.
    """

    name: str
    engine_sleeps: bool = False
    checkpointing: bool = False
    optimizer: Optimizer = "adamw"

    def settings(self, base: Mapping[str, Any]) -> dict[str, Any]:
        """The update settings of `base` (keys of `UpdateSettings`) that this plan changes, and what to."""
        changed: dict[str, Any] = {}
        if self.checkpointing:
            changed["gradient_checkpointing"] = True
            for key in ("micro_batch_tokens", "head_tile"):
                changed[key] = min(base[key], max(base[key] // _SMALLER, _SMALLEST))
        if self.optimizer != base["optimizer"]:
            changed["optimizer"] = self.optimizer
            if self.optimizer == "lora" and "learning_rate" in base:
                changed["learning_rate"] = _LORA_RATE * base["learning_rate"]
        return changed


def ladder(
    device: str, *, can_sleep: bool, optimizer: str = "adamw", optimizers: Sequence[str] = OPTIMIZERS
) -> tuple[Plan, ...]:
    """The plans that make sense on `device`; each saves what those before it save, and something more.

    Args:
        device: `cpu`, `cuda`, `cuda:N` or `mps`.
        can_sleep: whether the engine has memory of its own on the update's device, and can give it back.
        optimizer: as configured; no plan goes back to one that needs more.
        optimizers: the kinds that work on this device.
    """
    first = OPTIMIZERS.index(optimizer) if optimizer in OPTIMIZERS else 0
    kind = OPTIMIZERS[first]
    plans = [Plan("resident", optimizer=kind)]
    if can_sleep:
        plans.append(Plan("time-share", can_sleep, optimizer=kind))
    plans.append(Plan("checkpointing", can_sleep, True, kind))
    for name, later in zip(PLAN_NAMES[3:], OPTIMIZERS[1:], strict=True):
        # on a CPU the host is the device: its optimizer would be where it is already
        if (
            OPTIMIZERS.index(later) > first
            and later in optimizers
            and not (device == "cpu" and later == "host")
        ):
            plans.append(Plan(name, can_sleep, True, later))
    return tuple(plans)


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
