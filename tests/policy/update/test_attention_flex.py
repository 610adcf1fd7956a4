"""Flex attention, uncompiled on the CPU, equals the calls block by block; and what decides between the two."""

import random
from collections.abc import Iterator

import pytest
import torch
import torch.nn.attention.flex_attention as torch_flex
from torch import Tensor, nn

from swarmd.policy.update import attention_flex
from swarmd.policy.update.attention import layout_of, prompt_sharing_attention
from swarmd.policy.update.attention_flex import FlexRow, choices, flex_row
from swarmd.policy.update.packing import Segment

CPU = torch.device("cpu")
LONG = (
    Segment(slice(0, 300), (slice(300, 555), slice(555, 555), slice(555, 701))),
    Segment(slice(701, 703), (slice(703, 711),)),
)


@pytest.fixture(autouse=True)
def nothing_decided(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # torch has no compiled backward for the CPU and therefore refuses gradients there; the uncompiled formula has one.
    monkeypatch.setattr(torch_flex, "_validate_device", lambda *_: None)
    monkeypatch.setattr(attention_flex, "_compiled", lambda: torch_flex.flex_attention)
    attention_flex._choices.clear()
    yield
    attention_flex._choices.clear()


def segments(num_tokens_min: int, seed: int = 0) -> tuple[Segment, ...]:
    """Groups of ragged lengths, with empty completions and single tokens among them, of an odd number of tokens together."""
    rng, found, start = random.Random(seed), [], 0
    while start < num_tokens_min or start % 2 == 0:
        stop = start + rng.randint(1, 60)
        prompt, completions = slice(start, stop), []
        for length in (rng.randint(1, 70), 0, 1, rng.randint(1, 90)):
            completions.append(slice(stop, stop + length))
            stop += length
        found.append(Segment(prompt, tuple(completions)))
        start = stop
    return tuple(found)


def states(num_tokens: int, num_key_heads: int) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(1, heads, num_tokens, 16) for heads in (4, num_key_heads, num_key_heads)]


def by_block(row: tuple[Segment, ...]) -> attention_flex.Attend:
    layout = layout_of(row, CPU)
    return lambda q, k, v: prompt_sharing_attention(nn.Module(), q, k, v, None, layout=layout)[0].transpose(
        1, 2
    )


@pytest.mark.parametrize("row", [segments(20), segments(700), LONG], ids=["short", "ragged", "long"])
@pytest.mark.parametrize("num_key_heads", [1, 2, 4])
def test_outputs_and_gradients_equal_those_block_by_block(
    row: tuple[Segment, ...], num_key_heads: int
) -> None:
    flex = FlexRow(row, 1, CPU)
    given = states(row[-1].stop, num_key_heads)
    wanted, _ = attention_flex._measure(by_block(row), *given)
    found, _ = attention_flex._measure(
        lambda *s: flex.attend(*s, scaling=None, run=torch_flex.flex_attention), *given
    )
    assert all((one - other).abs().max() < 1e-5 for one, other in zip(found, wanted, strict=True))


def test_the_tiles_are_those_of_the_mask() -> None:
    mask = FlexRow(LONG, 1, CPU)._block_mask()
    place = torch.arange(mask.shape[-1])
    seen = mask.mask_mod(place, place, place[:, None], place[None])
    tiles = seen.view(len(place) // 128, 128, -1, 128).sum((1, 3))
    assert torch.equal(mask.to_dense()[0, 0], (tiles > 0).to(mask.to_dense().dtype))
    assert mask.full_kv_num_blocks[0, 0].tolist() == (tiles == 128 * 128).sum(1).tolist()
    assert mask.full_kv_num_blocks.sum() > 0


@pytest.mark.parametrize(("faster", "name"), [("flex", True), ("blocks", False)])
def test_the_faster_way_is_taken(monkeypatch: pytest.MonkeyPatch, faster: str, name: bool) -> None:
    row = segments(300)
    flex, given, otherwise = FlexRow(row, 1, CPU), states(row[-1].stop, 2), by_block(row)
    measure = attention_flex._measure
    seconds = iter([2.0, 1.0] if faster == "flex" else [1.0, 2.0])  # block by block, then flex
    monkeypatch.setattr(attention_flex, "_measure", lambda *args: (measure(*args)[0], next(seconds)))
    taken = flex.chosen(otherwise, *given, None)
    assert (taken is not otherwise) == name
    assert torch.allclose(taken(*given), otherwise(*given), atol=1e-5)
    assert "difference" in choices()[0]


def test_a_wrong_result_is_never_taken_however_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    row = segments(300)
    flex, given, otherwise = FlexRow(row, 1, CPU), states(row[-1].stop, 2), by_block(row)
    flex._member_T = torch.zeros_like(flex._member_T)  # completions see each other
    measure, seconds = attention_flex._measure, iter([2.0, 1.0])
    monkeypatch.setattr(attention_flex, "_measure", lambda *args: (measure(*args)[0], next(seconds)))
    assert flex.chosen(otherwise, *given, None) is otherwise
    assert "wrong" in choices()[0]


def test_not_a_number_is_never_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    row = segments(300)
    given, otherwise = states(row[-1].stop, 2), by_block(row)
    monkeypatch.setattr(attention_flex, "_compiled", lambda: lambda q, *_, **__: q * torch.nan)
    assert FlexRow(row, 1, CPU).chosen(otherwise, *given, None) is otherwise


@pytest.mark.parametrize(
    "refusal", [RuntimeError("no C compiler"), ImportError("triton"), torch.OutOfMemoryError()]
)
def test_a_refusal_costs_nothing_but_the_trial(monkeypatch: pytest.MonkeyPatch, refusal: Exception) -> None:
    def refuse() -> None:
        raise refusal

    row = segments(300)
    given, otherwise = states(row[-1].stop, 2), by_block(row)
    monkeypatch.setattr(attention_flex, "_compiled", refuse)
    assert FlexRow(row, 1, CPU).chosen(otherwise, *given, None) is otherwise
    assert type(refusal).__name__ in choices()[0]


def test_a_kernel_that_refuses_later_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    row = segments(300)
    flex, given, otherwise = FlexRow(row, 1, CPU), states(row[-1].stop, 2), by_block(row)
    monkeypatch.setattr(FlexRow, "_try", lambda *_: attention_flex.Choice(True, "taken"))
    taken = flex.chosen(otherwise, *given, None)
    monkeypatch.setattr(
        attention_flex, "_compiled", lambda: (_ for _ in ()).throw(RuntimeError("recompiled too often"))
    )
    assert torch.equal(taken(*given), otherwise(*given))
    assert flex.chosen(otherwise, *given, None) is otherwise


def test_the_trial_leaves_no_gradient_and_runs_without_grad_mode() -> None:
    row = segments(300)
    given = [one.requires_grad_() for one in states(row[-1].stop, 2)]
    with torch.no_grad():
        FlexRow(row, 1, CPU).chosen(by_block(row), *given, None)
    assert [one.grad for one in given] == [None] * 3


def test_only_long_rows_on_cuda_are_tried() -> None:
    assert flex_row(segments(2000), 1, CPU) is None
    assert flex_row((Segment(slice(0, 500), (slice(500, 511),)),), 1, torch.device("cuda")) is None
