"""The transformers engine against a naive loop, against `model.generate`, and against a fresh forward."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from swarmd.errors import OutOfMemory
from swarmd.policy.generation.drawing import draw
from swarmd.policy.generation.engine import Sampled, Sampling
from swarmd.policy.generation.transformers_engine import TransformersEngine
from swarmd.policy.model.loading import load_model
from swarmd.policy.model.tokenise import Tokeniser
from tests.policy.folders import build_tokenizer

EOS = (0, 2)
PROMPTS = ["one and two?", "x", "what is the answer to a much longer question than the others?"]


@pytest.fixture(scope="module")
def model(model_dir: Path) -> Any:
    return load_model(model_dir, "cpu")


@pytest.fixture(scope="module")
def prompts() -> list[list[int]]:
    tokeniser = Tokeniser(build_tokenizer(), EOS)
    return [tokeniser.prompt_ids(prompt) for prompt in PROMPTS]


def engine(model: Any, *, batch_tokens_max: int = 10_000, context: int = 256) -> TransformersEngine:
    return TransformersEngine(
        model, eos_ids=EOS, pad_id=0, batch_tokens_max=batch_tokens_max, context_tokens_max=context
    )


@torch.no_grad()
def naive(model: Any, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[list[Sampled]]:
    """No cache, no batch, no padding: one whole forward a token."""
    numbers = torch.Generator().manual_seed(sampling.seed)
    shape = len(prompts), sampling.num_completions, sampling.tokens_max
    uniform = torch.rand(shape, generator=numbers, dtype=torch.float64)
    result = []
    for p, prompt in enumerate(prompts):
        result.append([])
        for g in range(sampling.num_completions):
            found = Sampled()
            for t in range(sampling.tokens_max):
                logits = model(input_ids=torch.tensor([[*prompt, *found.ids]])).logits[:, -1]
                token, logp = draw(logits, uniform[p, g, t : t + 1], sampling.temperature)
                found.ids.append(token.item())
                found.logps.append(logp.item())
                if token.item() in EOS:
                    found.finished = True
                    break
            result[-1].append(found)
    return result


def flat(sampled_RG: list[list[Sampled]]) -> list[Sampled]:
    return [sampled for row in sampled_RG for sampled in row]


def ids(sampled_RG: list[list[Sampled]]) -> list[list[list[int]]]:
    return [[sampled.ids for sampled in row] for row in sampled_RG]


@pytest.mark.parametrize("temperature", [1.0, 0.5, 0.0])
def test_batched_generation_is_the_naive_loop(
    model: Any, prompts: list[list[int]], temperature: float
) -> None:
    sampling = Sampling(num_completions=6, temperature=temperature, tokens_max=24, seed=5)
    wanted = naive(model, prompts, sampling)
    found = engine(model).generate(prompts, sampling)
    assert ids(found) == ids(wanted)
    for got, want in zip(flat(found), flat(wanted), strict=True):
        assert got.logprob_sum == pytest.approx(want.logprob_sum, abs=1e-3)
        assert got.finished == want.finished


def test_some_completions_of_that_comparison_finish_and_some_are_cut(
    model: Any, prompts: list[list[int]]
) -> None:
    found = flat(engine(model).generate(prompts, Sampling(6, 1.0, 24, 5)))
    assert {sampled.finished for sampled in found} == {True, False}


def test_greedy_generation_is_that_of_transformers(model: Any, prompts: list[list[int]]) -> None:
    found = engine(model).generate(prompts, Sampling(1, 0.0, 20, 0))
    for prompt, (sampled,) in zip(prompts, found, strict=True):
        wanted = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            do_sample=False,
            max_new_tokens=20,
            eos_token_id=list(EOS),
            pad_token_id=0,
        )[0, len(prompt) :]
        assert sampled.ids == wanted.tolist()


def test_how_the_work_is_cut_changes_no_sample(model: Any, prompts: list[list[int]]) -> None:
    sampling = Sampling(5, 1.0, 16, 3)
    assert ids(engine(model, batch_tokens_max=1).generate(prompts, sampling)) == ids(
        engine(model).generate(prompts, sampling)
    )


def test_the_seed_decides(model: Any, prompts: list[list[int]]) -> None:
    first = engine(model).generate(prompts, Sampling(3, 1.0, 16, 1))
    torch.manual_seed(99)  # nobody else's generator matters
    assert ids(engine(model).generate(prompts, Sampling(3, 1.0, 16, 1))) == ids(first)
    assert ids(engine(model).generate(prompts, Sampling(3, 1.0, 16, 2))) != ids(first)


def test_log_probs_are_those_of_a_fresh_forward_at_the_temperature(
    model: Any, prompts: list[list[int]]
) -> None:
    (row,) = engine(model).generate(prompts[:1], Sampling(4, 0.7, 20, 8))
    for sampled in row:
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([[*prompts[0], *sampled.ids]])).logits[0] / 0.7
        logps = logits.log_softmax(-1)[len(prompts[0]) - 1 : -1]
        wanted = logps.gather(1, torch.tensor(sampled.ids)[:, None]).sum().item()
        assert sampled.logprob_sum == pytest.approx(wanted, abs=1e-3)


def test_no_token_follows_the_end_token(model: Any, prompts: list[list[int]]) -> None:
    for sampled in flat(engine(model).generate(prompts, Sampling(16, 1.0, 40, 2))):
        assert sampled.finished == (sampled.ids[-1] in EOS)
        assert not set(sampled.ids[:-1]) & set(EOS)


def test_one_token_is_one_token(model: Any, prompts: list[list[int]]) -> None:
    found = flat(engine(model).generate(prompts, Sampling(3, 1.0, 1, 0)))
    assert [len(sampled.ids) for sampled in found] == [1] * 9


def test_no_prompts_need_no_work(model: Any) -> None:
    assert engine(model).generate([], Sampling(3, 1.0, 5, 0)) == []


def test_the_context_ends_a_completion_but_not_its_neighbours(model: Any, prompts: list[list[int]]) -> None:
    context = len(prompts[2]) + 2
    found = engine(model, context=context).generate(prompts, Sampling(2, 1.0, 8, 4))
    assert max(len(sampled.ids) for sampled in found[2]) <= 2
    assert ids(found[:2]) == ids(engine(model).generate(prompts, Sampling(2, 1.0, 8, 4))[:2])


def test_a_prompt_that_fills_the_context_gets_empty_completions(model: Any) -> None:
    found = engine(model, context=10).generate([[5] * 10, [5] * 3], Sampling(2, 1.0, 4, 0))
    assert found[0] == [Sampled(), Sampled()]
    assert all(sampled.ids for sampled in found[1])


class Crowded(TransformersEngine):
    """Runs out of memory above a number of rows: at once, or when one of them has grown to a length."""

    rows_max, length_max = 2, 0

    def _make_rows(self, num_rows: int) -> Any:
        rows = super()._make_rows(num_rows)
        forward = rows.forward

        def crowded(tokens: list[int], positions: list[int]) -> Any:
            if len(tokens) > self.rows_max and max(positions) > self.length_max:
                raise RuntimeError(
                    "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"
                )
            return forward(tokens, positions)

        rows.forward = crowded  # type: ignore[method-assign]
        return rows


@pytest.mark.parametrize("length_max", [0, 45])
def test_a_batch_that_does_not_fit_is_halved_until_it_does(
    model: Any, prompts: list[list[int]], length_max: int
) -> None:
    crowded = Crowded(model, eos_ids=EOS, pad_id=0, batch_tokens_max=10_000, context_tokens_max=256)
    crowded.length_max = length_max
    sampling = Sampling(5, 1.0, 12, 6)
    assert ids(crowded.generate(prompts, sampling)) == ids(engine(model).generate(prompts, sampling))
    assert crowded.batch_tokens_max < 10_000


def test_when_not_even_one_row_fits_the_message_says_what_to_lower(
    model: Any, prompts: list[list[int]]
) -> None:
    crowded = Crowded(model, eos_ids=EOS, pad_id=0, batch_tokens_max=10_000, context_tokens_max=256)
    crowded.rows_max = 0
    with pytest.raises(OutOfMemory, match="tokens_max"):
        crowded.generate(prompts, Sampling(2, 1.0, 4, 0))
    assert model.config._attn_implementation == "sdpa"  # the learner shares the module


def test_another_error_is_not_taken_for_lack_of_memory(model: Any) -> None:
    with pytest.raises(IndexError):
        engine(model).generate([[10_000]], Sampling(2, 1.0, 4, 0))
