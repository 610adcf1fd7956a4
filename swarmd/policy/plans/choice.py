"""Which plan a node takes: a table for each, the memory that is free, and the first that fits. Imports no torch."""

from dataclasses import dataclass

from swarmd.policy.plans.ladder import Plan, named
from swarmd.policy.plans.needs import Needs, Where, Work, needs
from swarmd.policy.plans.room import Room
from swarmd.policy.plans.shape import ModelShape

# A plan fits when its peak and this share of it are free: the tables are right to 10 % (tests/policy/plans/test_half_billion.py).
# At half, fragments of the allocator cost a step down; at double, cards that would do are refused.
MARGIN = 0.1


NOT_ASKED = Room(None, None)


@dataclass(frozen=True)
class Priced:
    """A plan with its table."""

    plan: Plan
    needs: Needs

    def fits(self, room: Room, host: Room = NOT_ASKED) -> bool:
        """Whether it does on the device and on the host, with the margin; where nobody knows the room it is taken on trust."""
        return _within(self.needs.peak_bytes, room) and _within(self.needs.host_bytes, host)


@dataclass(frozen=True)
class Choice:
    """The plan in force at the start, among all, and the room it was chosen for.

    `chosen` is None when none fits. `forced`: the operator named it. `num_parameters`: of the model, for people. `host` is the
    host's memory, where that is not the device's.
    """

    device: str
    room: Room
    plans: tuple[Priced, ...]
    chosen: Priced | None
    forced: bool = False
    num_parameters: int = 0
    host: Room = NOT_ASKED

    @property
    def names(self) -> tuple[str, ...]:
        """All plans, in order."""
        return tuple(priced.plan.name for priced in self.plans)


def price(shape: ModelShape, work: Work, where: Where, plans: tuple[Plan, ...]) -> tuple[Priced, ...]:
    """Each plan with its table."""
    return tuple(Priced(plan, needs(shape, work, plan.how, where)) for plan in plans)


def choose(
    device: str,
    room: Room,
    plans: tuple[Priced, ...],
    wanted: str = "auto",
    last: str | None = None,
    num_parameters: int = 0,
    host: Room = NOT_ASKED,
) -> Choice:
    """The first plan that fits, or the one that is wanted.

    Args:
        plans: in order, each saving more than the one before.
        wanted: `auto`, or a plan's name, which is taken whether it fits or not.
        last: where an earlier run had stepped down to; the search begins there.

    Raises:
        ConfigError: `wanted` is no plan of this device.
    """
    if wanted != "auto":
        found = named([priced.plan for priced in plans], wanted)
        chosen: Priced | None = next(p for p in plans if p.plan is found)
    else:
        names = [priced.plan.name for priced in plans]
        first = names.index(last) if last in names else 0
        chosen = next((p for p in plans[first:] if p.fits(room, host)), None)
    return Choice(device, room, plans, chosen, wanted != "auto", num_parameters, host)


def _within(size_bytes: int, room: Room) -> bool:
    return room.free_bytes is None or size_bytes * (1 + MARGIN) <= room.free_bytes
