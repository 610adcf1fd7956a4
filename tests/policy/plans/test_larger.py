"""Larger rounds: proposed where a card would idle, within the chosen plan, and nowhere else."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swarmd.config import Config, UpdateSection
from swarmd.policy.plans.choice import Choice, choose, price
from swarmd.policy.plans.ladder import ladder
from swarmd.policy.plans.larger import SEQUENCES_MAX, LargerRound
from swarmd.policy.plans.needs import Where, Work
from swarmd.policy.plans.room import Room
from swarmd.policy.plans.shape import shape_of
from tests.policy.plans.shapes import QWEN_05B, QWEN_3B, QWEN_15B

PAGE = Path(__file__).parents[3] / "docs" / "memory-plans.md"
GIB = 2**30
GPU = Where("cuda", "vllm", one_copy=True)
MODELS = {"0.5 B": QWEN_05B, "1.5 B": QWEN_15B, "3 B": QWEN_3B}
# Cards and hosts of the page's tables, in GB and GiB.
CARDS = ((8, 32), (12, 32), (16, 32), (24, 64))


def settings(**experience: Any) -> Config:
    return Config.model_validate({"policy": {"model": "Qwen2.5-0.5B"}, "experience": experience})


def chosen(
    config: Config,
    size_gib: float | None,
    *,
    sizes: dict[str, Any] = QWEN_05B,
    where: Where = GPU,
    host_gib: int = 64,
) -> Choice:
    shape = shape_of(sizes)
    assert shape
    plans = price(shape, Work.of(config), where, ladder(UpdateSection(), where.device, can_sleep=True))
    free = None if size_gib is None else int((size_gib - 0.5) * GIB)
    return choose(where.device, Room(free, free), plans, host=Room(None, host_gib * GIB))


def proposed(
    size_gib: float | None,
    *,
    config: Config | None = None,
    where: Where = GPU,
    sizes: dict[str, Any] = QWEN_05B,
    host_gib: int = 64,
) -> LargerRound | None:
    config, shape = config or settings(), shape_of(sizes)
    assert shape
    return LargerRound.of(
        config, shape, where, chosen(config, size_gib, sizes=sizes, where=where, host_gib=host_gib)
    )


def test_a_card_that_would_idle_is_offered_more() -> None:
    found = proposed(24)
    assert found is not None
    assert (found.num_local, found.num_external, found.times) == (16, 16, 4)
    assert found.generate_batch_tokens >= 16 * 8 * (300 + 256)
    assert found.sequences == (16384 // (300 + 256), 128)


def test_the_gain_is_that_of_the_bytes_that_a_step_reads() -> None:
    found, shape = proposed(24), shape_of(QWEN_05B)
    assert found
    assert shape
    weights, of_one = 2 * 494_032_768, (300 + 128) * 24 * 2 * 2 * 64 * 2
    before, after = found.sequences
    expected = (after / (weights + after * of_one)) / (before / (weights + before * of_one))
    assert found.gain == pytest.approx(expected)
    assert 1 < found.gain < after / before


@pytest.mark.parametrize("size_gib", [card for card, _ in CARDS])
@pytest.mark.parametrize("sizes", MODELS.values(), ids=MODELS)
def test_what_is_offered_fits_under_the_same_plan(size_gib: int, sizes: dict[str, Any]) -> None:
    config = settings()
    before, found = chosen(config, size_gib, sizes=sizes), proposed(size_gib, sizes=sizes)
    if found is None:
        return
    larger = Config.model_validate(
        {
            "policy": {"model": "Qwen2.5-0.5B", "generate_batch_tokens": found.generate_batch_tokens},
            "experience": {"mix": f"{found.num_local}/{found.num_external}"},
        }
    )
    after = chosen(larger, size_gib, sizes=sizes)
    assert before.chosen
    assert after.chosen
    assert after.chosen.plan == before.chosen.plan
    assert proposed(size_gib, config=larger, sizes=sizes) is None  # nothing more to say


def test_no_more_is_offered_than_the_card_can_hold() -> None:
    roomy, shape = chosen(settings(), 24), shape_of(QWEN_05B)
    assert roomy.chosen
    assert shape
    tight = replace(roomy, room=Room(None, int(roomy.chosen.needs.peak_bytes * 1.1) + 1))
    assert LargerRound.of(settings(), shape, GPU, tight) is None


@pytest.mark.parametrize(
    "where",
    [Where("cpu", "vllm"), Where("cpu", "transformers"), replace(GPU, generates=False)],
    ids=["cpu, vllm", "cpu", "generation elsewhere"],
)
def test_nothing_is_offered_where_no_card_does_both(where: Where) -> None:
    assert proposed(24, where=where) is None


def test_nothing_is_offered_where_nobody_knows_the_room() -> None:
    assert proposed(None) is None


def test_nothing_is_offered_to_a_card_without_a_plan() -> None:
    assert proposed(2) is None


def test_a_round_that_keeps_the_card_busy_is_left_alone() -> None:
    assert proposed(24, config=settings(completions=64, mix="2/2")) is None


def test_the_mix_stays_what_it_is() -> None:
    found = proposed(24, config=settings(mix="4/0"))
    assert found
    assert (found.num_local, found.num_external) == (16, 0)


def test_the_line_can_be_copied_to_a_command_line() -> None:
    found = proposed(24)
    assert found
    assert f"--mix 16/16 --set policy.generate_batch_tokens={found.generate_batch_tokens}" in found.line
    assert "by estimate" in found.line
    assert found.line in PAGE.read_text()


def cell(size_gib: int, host_gib: int, sizes: dict[str, Any]) -> str:
    found = proposed(size_gib, sizes=sizes, host_gib=host_gib)
    if found is None:
        return "-"
    return f"{found.num_local}/{found.num_external}, {found.generate_batch_tokens} tokens: {found.gain:.1f}"


def test_the_page_says_what_each_card_is_offered() -> None:
    lines = [f"| card, host memory | {' | '.join(MODELS)} |", "|---|---|---|---|"]
    for size_gib, host_gib in CARDS:
        cells = [cell(size_gib, host_gib, sizes) for sizes in MODELS.values()]
        lines.append(f"| {size_gib} GB, {host_gib} GiB free | {' | '.join(cells)} |")
    table = "\n".join(lines)
    assert table in PAGE.read_text(), f"write this into {PAGE}:\n{table}"


def test_no_offer_is_past_what_a_card_reads_and_computes_alike() -> None:
    offers = [proposed(size, sizes=sizes) for size, _ in CARDS for sizes in MODELS.values()]
    assert any(offers)
    assert all(offer.sequences[1] <= SEQUENCES_MAX for offer in offers if offer)
    assert re.search(rf"\b{SEQUENCES_MAX}\b", PAGE.read_text())
