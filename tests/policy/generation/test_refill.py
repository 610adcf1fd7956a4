"""A batch smaller than the work: places are refilled, prompts are forwarded once, and no sample changes by it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from swarmd.errors import OutOfMemory
from swarmd.policy.generation.batch import remaining
from swarmd.policy.generation.decoder import Decoder
from swarmd.policy.generation.engine import Sampling
from swarmd.policy.generation.padded import PaddedRows
from swarmd.policy.generation.transformers_engine import TransformersEngine
from swarmd.policy.model.loading import load_model
from tests.policy.generation.test_generate import engine, flat, ids, naive

PROMPTS = [[5 + number] * (3 + 2 * number) for number in range(6)]
TOKENS_MAX = 24
WIDTH = 13 + TOKENS_MAX


@pytest.fixture(scope="module")
def model(model_dir: Path) -> Any:
    return load_model(model_dir, "cpu")


def watched(engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], list[list[int]]]:
    """How many rows each step has, and the lengths of the prompts of each prefill."""
    steps: list[int] = []
    prefills: list[list[int]] = []
    make, prefill = engine._make_rows, engine._decoder.prefill

    def make_rows(num_rows: int) -> Any:
        rows = make(num_rows)
        forward: Callable[..., Any] = rows.forward

        def counted(tokens: Sequence[int], positions: Sequence[int]) -> Any:
            steps.append(len(tokens))
            return forward(tokens, positions)

        monkeypatch.setattr(rows, "forward", counted)
        return rows

    def prefilled(prompts: Sequence[Sequence[int]]) -> Any:
        prefills.append([len(prompt) for prompt in prompts])
        return prefill(prompts)

    monkeypatch.setattr(engine, "_make_rows", make_rows)
    monkeypatch.setattr(engine._decoder, "prefill", prefilled)
    return steps, prefills


@pytest.mark.parametrize("num_rows", [1, 2, 3, 7, 12])
def test_whatever_the_number_of_places_and_so_the_order_of_refills_it_is_the_naive_loop(
    model: Any, num_rows: int
) -> None:
    sampling = Sampling(3, 1.0, TOKENS_MAX, 11)
    found = engine(model, batch_tokens_max=num_rows * WIDTH).generate(PROMPTS, sampling)
    assert ids(found) == ids(naive(model, PROMPTS, sampling))


def test_no_batch_exceeds_its_rows_and_places_are_refilled(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = engine(model, batch_tokens_max=5 * WIDTH)
    small.generate(PROMPTS, Sampling(4, 1.0, TOKENS_MAX, 7))
    steps, _ = watched(small, monkeypatch)
    found = flat(small.generate(PROMPTS, Sampling(4, 1.0, TOKENS_MAX, 7)))
    longest = max(len(sampled.ids) for sampled in found)
    assert max(steps) == 5
    # every step is full until nobody waits any more; from then on each place has at most one completion to end
    assert sum(1 for num in steps if num < 5) <= longest
    assert len({len(sampled.ids) for sampled in found}) > 3


def test_one_that_never_ends_does_not_keep_the_others_waiting(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lengths_by_number(completion: Any) -> bool:
        return len(completion.sampled.ids) >= (40 if completion.number == 0 else 4)

    monkeypatch.setattr("swarmd.policy.generation.batch.Completion.ended", property(lengths_by_number))
    tailed = TransformersEngine(
        model, eos_ids=[], pad_id=0, batch_tokens_max=2 * (13 + 40), context_tokens_max=256
    )
    steps, _ = watched(tailed, monkeypatch)
    found = tailed.generate([PROMPTS[5]] * 13, Sampling(1, 1.0, 40, 0))
    assert [len(sampled.ids) for sampled in flat(found)] == [40] + [4] * 12
    # 12 of 4 tokens beside one of 40: the first token of each comes with its prompt, so 12 x 3 steps of 39 have two rows
    assert steps == [2] * 36 + [1] * 3


def test_each_prompt_is_forwarded_once_however_its_completions_are_spread(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = engine(model, batch_tokens_max=3 * WIDTH)
    small.generate(PROMPTS[:1], Sampling(1, 1.0, 2, 0))
    _, prefills = watched(small, monkeypatch)
    small.generate(PROMPTS, Sampling(5, 1.0, TOKENS_MAX, 2))
    assert [length for lengths in prefills for length in lengths] == [13, 11, 9, 7, 5, 3]


def test_each_row_ends_at_its_own_context_limit_when_places_are_refilled(model: Any) -> None:
    context = 16
    never = TransformersEngine(
        model, eos_ids=[], pad_id=0, batch_tokens_max=2 * context, context_tokens_max=context
    )
    found = never.generate(PROMPTS, Sampling(3, 1.0, 9, 5))
    wanted = [min(9, context - len(prompt)) for prompt in PROMPTS]
    assert [[len(sampled.ids) for sampled in row] for row in found] == [[num] * 3 for num in wanted]
    assert not any(sampled.finished for sampled in flat(found))


def test_much_shorter_prompts_get_a_batch_of_their_own_with_more_rows(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed = engine(model, batch_tokens_max=2 * 100)
    steps, _ = watched(mixed, monkeypatch)
    mixed.generate([[7] * 90, [8] * 3, [9] * 3], Sampling(8, 1.0, 10, 1))
    assert max(steps) > 8


def test_a_model_that_slots_do_not_suit_gives_the_same_samples(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarmd.policy.generation.rows._slots_difference", lambda decoder: 0.5)
    padded, sampling = engine(model, batch_tokens_max=4 * WIDTH), Sampling(3, 1.0, TOKENS_MAX, 11)
    assert ids(padded.generate(PROMPTS, sampling)) == ids(naive(model, PROMPTS, sampling))
    assert isinstance(padded._make_rows(1), PaddedRows)


def test_memory_that_ran_out_during_the_check_is_no_verdict_on_the_model(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crowded(decoder: Decoder) -> float:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patch:
        patch.setattr("swarmd.policy.generation.rows._slots_difference", crowded)
        tried = engine(model)
        with pytest.raises(OutOfMemory, match="single completion"):
            tried.generate([[5]], Sampling(1, 1.0, 2, 0))
    assert tried._make_rows(1).refills


@pytest.mark.parametrize(
    ("ended", "order"),
    [
        ([False, False], [0, 1]),
        ([True, False, False], [2, 1]),
        ([False, True, False, True], [0, 2]),
        ([True, True, True], []),
        ([True, False, True, False, False], [4, 1, 3]),
    ],
)
def test_gaps_are_filled_from_the_end(ended: list[bool], order: list[int]) -> None:
    assert remaining(ended) == order
