"""Packs: nothing lost, nothing twice, within the budget, and every token where it belongs."""

import random
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from swarmd.policy.update.packing import (
    Pack,
    PromptGroup,
    TokenCompletion,
    TokenRollout,
    WeighedCompletion,
    collate,
    first_fit,
)

CPU = torch.device("cpu")


def group(prompt: int, *lengths: int, first_index: int = 0) -> PromptGroup:
    kept = (
        WeighedCompletion(
            first_index + number, TokenCompletion(tuple(range(100, 100 + num)), 1.0), 0.1, number % 2 == 1
        )
        for number, num in enumerate(lengths)
    )
    return PromptGroup(tuple(range(prompt)), tuple(kept))


@given(st.integers(0, 10_000), st.integers(1, 60))
def test_every_completion_is_packed_once_and_within_the_budget(seed: int, tokens_max: int) -> None:
    rng = random.Random(seed)
    groups = [
        group(
            rng.randint(1, 9),
            *(rng.randint(1, 15) for _ in range(rng.randint(1, 6))),
            first_index=10 * number,
        )
        for number in range(rng.randint(1, 6))
    ]
    packs = first_fit(groups, tokens_max)
    packed = Counter(weighed.index for pack in packs for weighed in pack.completions())
    assert packed == Counter(c.index for g in groups for c in g.completions)
    for pack in packs:
        lonely = len(pack.groups) == 1 and len(pack.groups[0].completions) == 1
        assert pack.num_tokens == sum(g.num_tokens for g in pack.groups)
        assert pack.num_tokens <= tokens_max or lonely


def test_a_rollout_over_the_budget_repeats_its_prompt() -> None:
    packs = first_fit([group(4, 7, 7, 7)], 16)
    assert [[len(g.completions) for g in pack.groups] for pack in packs] == [[2], [1]]
    assert all(g.prompt_ids == (0, 1, 2, 3) for pack in packs for g in pack.groups)


def test_small_groups_fill_the_first_pack_with_room() -> None:
    packs = first_fit([group(2, 3), group(9, 6), group(4, 5)], 20)
    assert [pack.num_tokens for pack in packs] == [18, 8]


def test_places_positions_and_predictors() -> None:
    pack = Pack()
    pack.add(group(3, 3, 1))
    pack.add(group(2, 2))
    found = collate(pack, CPU, torch.float32)
    assert found.ids_T.tolist() == [0, 1, 2, 100, 101, 0, 1, 100]  # no completion's last token
    assert found.positions_T.tolist() == [0, 1, 2, 3, 4, 0, 1, 2]
    assert found.predictors_N.tolist() == [2, 3, 4, 2, 6, 7]
    assert found.targets_N.tolist() == [100, 101, 102, 100, 100, 101]
    assert found.external_N.tolist() == [False, False, False, True, False, False]
    assert found.old_logps_N is None


def test_old_log_probs_are_nan_where_there_are_none() -> None:
    given_one = WeighedCompletion(0, TokenCompletion((5, 6), 1.0, (-1.0, -2.0)), 0.1, False)
    none_one = WeighedCompletion(1, TokenCompletion((7,), 1.0), 0.1, False)
    pack = Pack()
    pack.add(PromptGroup((1,), (given_one, none_one)))
    old = collate(pack, CPU, torch.float64).old_logps_N
    assert old is not None
    assert old.nan_to_num(9.0).tolist() == [-1.0, -2.0, 9.0]


def test_old_log_probs_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="2 old log-probs for 3 tokens"):
        TokenCompletion((1, 2, 3), 0.0, (-1.0, -1.0))


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="prompt has no tokens"):
        TokenRollout((), (TokenCompletion((1,), 1.0),))
