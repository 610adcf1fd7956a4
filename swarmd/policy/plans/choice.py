"""Which plan a node takes: a table for each, the memory that is free, and the first that fits. Imports no torch."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from swarmd.errors import OutOfMemory
from swarmd.policy.plans.ladder import Plan, named
from swarmd.policy.plans.needs import Needs, Where, Work, needs
from swarmd.policy.plans.room import Room
from swarmd.policy.plans.shape import ModelShape

GIB = 2**30
# A plan fits when its peak and this share of it are free: the tables are right to 10 % (tests/policy/plans/test_half_billion.py).
# At half, fragments of the allocator cost a step down; at double, cards that would do are refused.
MARGIN = 0.1


@dataclass(frozen=True)
class Priced:
    """A plan with its table."""

    plan: Plan
    needs: Needs

    def fits(self, room: Room) -> bool:
        """Whether it does, with the margin; where nobody knows the room it is taken on trust."""
        return room.free_bytes is None or self.needs.peak_bytes * (1 + MARGIN) <= room.free_bytes


@dataclass(frozen=True)
class Choice:
    """The plan in force at the start, among all, and the room it was chosen for.

    `chosen` is None when none fits. `forced`: the operator named it. `num_parameters`: of the model, for people.
    """

    device: str
    room: Room
    plans: tuple[Priced, ...]
    chosen: Priced | None
    forced: bool = False
    num_parameters: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """All plans, in order."""
        return tuple(priced.plan.name for priced in self.plans)

    def required(self) -> Priced:
        """The chosen plan. Raises OutOfMemory when none fits, with the table and what would help."""
        if self.chosen is not None:
            return self.chosen
        from swarmd.policy.plans.report import table_lines

        least = min(self.plans, key=lambda priced: priced.needs.peak_bytes)
        need, free = least.needs.peak_bytes * (1 + MARGIN), self.room.free_bytes or 0
        holders = "".join(f"\n  {line}" for line in holder_lines(self.room))
        raise OutOfMemory(
            f"not enough memory on {self.device}: the smallest plan, {least.plan.name}, needs {need / GIB:.1f} GiB "
            f"with its margin, and {free / GIB:.1f} GiB are free",
            "\n  ".join(table_lines(self)) + holders,
            f"{self._help(need)}; `--plan {least.plan.name}` tries it anyway",
        )

    def _help(self, need: float) -> str:
        free, total = self.room.free_bytes or 0, self.room.total_bytes or 0
        if total >= need:
            return f"free {(need - free) / GIB:.1f} GiB, which others hold"
        return (
            "take a smaller model (swarmd doctor memory --model NAME; every card that updates holds the whole model, also where "
            "several share an update), or lower policy.tokens_max, experience.completions"
        )


def price(shape: ModelShape, work: Work, where: Where, plans: tuple[Plan, ...]) -> tuple[Priced, ...]:
    """Each plan with its table."""
    return tuple(Priced(plan, needs(shape, under(plan, work), where)) for plan in plans)


def under(plan: Plan, work: Work) -> Work:
    """The work as `plan` has it done."""
    base: Mapping[str, Any] = {
        key: getattr(work, key) for key in ("micro_batch_tokens", "head_tile", "optimizer")
    }
    return replace(work, engine_sleeps=plan.engine_sleeps, **plan.settings(base))


def choose(
    device: str,
    room: Room,
    plans: tuple[Priced, ...],
    wanted: str = "auto",
    last: str | None = None,
    num_parameters: int = 0,
) -> Choice:
    """The first plan that fits, or the one that is wanted.

    Args:
        device: for messages.
        room: what is free now.
        plans: in order, each saving more than the one before.
        wanted: `auto`, or a plan's name, which is taken whether it fits or not.
        last: where an earlier run had stepped down to; the search begins there.
        num_parameters: of the model, for people.

    Raises:
        ConfigError: `wanted` is no plan of this device.
    """
    if wanted != "auto":
        found = named([priced.plan for priced in plans], wanted)
        chosen: Priced | None = next(p for p in plans if p.plan is found)
    else:
        names = [priced.plan.name for priced in plans]
        first = names.index(last) if last in names else 0
        chosen = next((p for p in plans[first:] if p.fits(room)), None)
    return Choice(device, room, plans, chosen, wanted != "auto", num_parameters)


def holder_lines(room: Room) -> list[str]:
    """Who else holds memory of the device."""
    return [
        f"pid {holder.pid} {holder.name} holds "
        + ("an unknown share" if holder.size_bytes is None else f"{holder.size_bytes / GIB:.1f} GiB")
        for holder in room.holders
    ]
