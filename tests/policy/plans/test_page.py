"""docs/memory-plans.md: its tables are those that the code computes now."""

import re
from pathlib import Path

import pytest

from swarmd.config import UpdateSection
from swarmd.optimizers import PLAN_NAMES
from swarmd.policy.plans.choice import Priced, choose, price
from swarmd.policy.plans.ladder import ladder
from swarmd.policy.plans.needs import Where
from swarmd.policy.plans.room import Room
from swarmd.policy.plans.shape import ModelShape, shape_of
from swarmd.policy.plans.words import table_lines
from tests.policy.plans.shapes import QWEN_05B, QWEN_3B, QWEN_15B, WORK, half_billion

PAGE = Path(__file__).parents[3] / "docs" / "memory-plans.md"
GIB = 2**30
# What drives a screen, and the driver itself, leave of a card.
TAKEN_BYTES = GIB // 2


def priced(shape: ModelShape) -> tuple[Priced, ...]:
    """Every plan with vLLM and default settings."""
    return price(
        shape,
        WORK,
        Where("cuda", "vllm", one_copy=True),
        ladder(UpdateSection(), "cuda", can_sleep=True),
    )


def table(size_gib: int) -> str:
    """Every plan for Qwen2.5-0.5B on a card of that size."""
    plans = priced(half_billion())
    choice = choose("cuda", Room(size_gib * GIB, size_gib * GIB - TAKEN_BYTES), plans)
    name = choice.chosen.plan.name if choice.chosen else "none"
    return "\n".join([*table_lines(choice), f"-> {name}"])


@pytest.mark.parametrize("size_gib", [8, 12, 16, 24])
def test_the_table_of_a_card_is_the_computed_one(size_gib: int) -> None:
    found = re.search(rf"## A card of {size_gib} GB\n\n```text\n(.*?)\n```", PAGE.read_text(), re.S)
    assert found is not None
    assert found[1] == table(size_gib), f"write this into {PAGE}:\n{table(size_gib)}"


def cell(plans: tuple[Priced, ...], size_gib: int, host_gib: int) -> str:
    """The plan that is chosen on a card and a host of those sizes, and what it needs of each, or that there is none."""
    free = Room(None, size_gib * GIB - TAKEN_BYTES)
    chosen = choose("cuda", free, plans, host=Room(None, host_gib * GIB)).chosen
    if chosen is None:
        assert not any(plan.fits(free, Room(None, host_gib * GIB)) for plan in plans)
        return "none"
    needs = chosen.needs
    return f"{chosen.plan.name}: {needs.peak_bytes / GIB:.1f}, {needs.host_bytes / GIB:.1f}"


def choices() -> str:
    """The table of models and cards."""
    lines = ["| card, host memory | 0.5 B | 1.5 B | 3 B |", "|---|---|---|---|"]
    models = [priced(shape) for shape in map(shape_of, (QWEN_05B, QWEN_15B, QWEN_3B)) if shape]
    for size_gib, host_gib in ((8, 16), (8, 32), (12, 32), (12, 64), (16, 32), (24, 64)):
        cells = [cell(plans, size_gib, host_gib) for plans in models]
        lines.append(f"| {size_gib} GB, {host_gib} GiB free | {' | '.join(cells)} |")
    return "\n".join(lines)


def test_the_choices_of_three_models_are_the_computed_ones() -> None:
    assert choices() in PAGE.read_text(), f"write this into {PAGE}:\n{choices()}"


def test_the_choice_of_one_and_a_half_billion_on_eight_gigabytes_adds_up_by_hand() -> None:
    """By the table of what an optimizer keeps, for 1,543,714,304 parameters: bytes of the phases, added by hand."""
    num, mib = 1_543_714_304, 2**20
    (plan,) = [p for p in priced(shape_of(QWEN_15B) or half_billion()) if p.plan.name == "host-optimizer"]
    rows = {row.name: row for row in plan.needs.rows}
    assert rows["weights"].generate_bytes == 2 * num
    assert sum(row.generate_bytes for row in (rows["master weights"], rows["optimizer moments"])) == 0
    assert plan.needs.host_bytes == 16 * num + 128 * mib + 2048 * mib
    in_use = [
        rows[name].generate_bytes
        for name in ("weights", "key-value cache", "engine", "process and libraries")
    ]
    assert plan.needs.generate_bytes == sum(in_use)


def test_every_plan_is_described() -> None:
    assert [name for name in PLAN_NAMES if f"| `{name}` |" not in PAGE.read_text()] == []
