"""Drawing one token a row: the right distribution, and nothing that has no probability."""

import pytest
import torch

from swarmd.policy.generation.drawing import draw


def uniform(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_the_cumulative_distribution_is_inverted() -> None:
    logits = torch.tensor([[0.2, 0.5, 0.3]]).log().expand(4, -1)
    tokens, logps = draw(logits, uniform(0.0, 0.19, 0.21, 0.71), 1.0)
    assert tokens.tolist() == [0, 0, 1, 2]
    assert logps.exp().tolist() == pytest.approx([0.2, 0.2, 0.5, 0.3])


def test_a_token_without_probability_is_never_drawn() -> None:
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]]).expand(2, -1)
    tokens, _ = draw(logits, uniform(0.0, 1 - 2**-53), 1.0)
    assert tokens.tolist() == [1, 3]


def test_frequencies_follow_the_temperature() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0]])
    numbers = torch.rand(20_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    tokens, _ = draw(logits.expand(len(numbers), -1), numbers, 0.5)
    wanted = torch.softmax(logits[0] / 0.5, dim=0)
    assert torch.allclose(tokens.bincount(minlength=3) / len(numbers), wanted, atol=0.01)


def test_temperature_zero_takes_the_likeliest() -> None:
    tokens, logps = draw(torch.tensor([[1.0, 3.0, 2.0]]), uniform(0.999), 0.0)
    assert tokens.tolist() == [1]
    assert logps.item() == pytest.approx(torch.log_softmax(torch.tensor([1.0, 3.0, 2.0]), 0)[1].item())


def test_rare_tokens_of_a_large_vocabulary_are_reachable() -> None:
    logits = torch.zeros(1, 150_000)
    tokens, _ = draw(logits, uniform(149_999.5 / 150_000), 1.0)
    assert tokens.item() == 149_999


def test_a_token_without_probability_is_never_drawn_from_a_large_vocabulary() -> None:
    logits = torch.full((3, 5000), -torch.inf)
    logits[:, [700, 3000]] = 0.0
    tokens, logps = draw(logits, uniform(0.0, 0.5, 1 - 2**-53), 1.0)
    assert tokens.tolist() == [700, 3000, 3000]
    assert logps.exp().tolist() == pytest.approx([0.5] * 3)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("num_tokens", [300, 1024, 1025, 4096, 5003])
def test_blocks_give_what_one_sum_in_float64_gives(num_tokens: int, temperature: float) -> None:
    numbers = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(500, num_tokens, generator=numbers)
    uniform_R = torch.rand(500, generator=numbers, dtype=torch.float64)
    wanted = torch.log_softmax(logits.double() / temperature, dim=-1)
    sums = wanted.exp().cumsum(-1)
    tokens, logps = draw(logits, uniform_R, temperature)
    rows = torch.arange(500)
    # the number lies in the token's own stretch of the sum, but for the rounding of float32 exponentials
    assert (sums[rows, tokens] > uniform_R - 1e-6).all()
    assert (sums[rows, tokens] - wanted.exp()[rows, tokens] <= uniform_R + 1e-6).all()
    assert torch.allclose(logps.double(), wanted[rows, tokens], atol=1e-5)
