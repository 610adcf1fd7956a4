"""docs/memory-plans.md: its tables are those that the code computes now."""

import re
from pathlib import Path

import pytest

from swarmd.config import UpdateSection
from swarmd.optimizers import PLAN_NAMES
from swarmd.policy.plans.choice import choose, price
from swarmd.policy.plans.ladder import ladder
from swarmd.policy.plans.needs import Where
from swarmd.policy.plans.room import Room
from swarmd.policy.plans.words import table_lines
from tests.policy.plans.shapes import WORK, half_billion

PAGE = Path(__file__).parents[3] / "docs" / "memory-plans.md"
GIB = 2**30
# What drives a screen, and the driver itself, leave of a card.
TAKEN_BYTES = GIB // 2


def table(size_gib: int) -> str:
    """Every plan for Qwen2.5-0.5B with vLLM, default settings, on a card of that size."""
    plans = price(
        half_billion(),
        WORK,
        Where("cuda", "vllm", one_copy=True),
        ladder(UpdateSection(), "cuda", can_sleep=True),
    )
    choice = choose("cuda", Room(size_gib * GIB, size_gib * GIB - TAKEN_BYTES), plans)
    name = choice.chosen.plan.name if choice.chosen else "none"
    return "\n".join([*table_lines(choice), f"-> {name}"])


@pytest.mark.parametrize("size_gib", [8, 12, 16, 24])
def test_the_table_of_a_card_is_the_computed_one(size_gib: int) -> None:
    found = re.search(rf"## A card of {size_gib} GB\n\n```text\n(.*?)\n```", PAGE.read_text(), re.S)
    assert found is not None
    assert found[1] == table(size_gib), f"write this into {PAGE}:\n{table(size_gib)}"


def test_every_plan_is_described() -> None:
    assert [name for name in PLAN_NAMES if f"| `{name}` |" not in PAGE.read_text()] == []
