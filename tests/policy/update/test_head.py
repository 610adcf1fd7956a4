"""The tiled head against autograd over full logits."""

import pytest
import torch
from torch import Tensor, nn

from swarmd.policy.update import head as head_module
from swarmd.policy.update.head import HeadGradients, head_pass

TOKENS, WIDTH, VOCAB = 11, 6, 17


def case(bias: bool, dtype: torch.dtype = torch.float64) -> tuple[Tensor, nn.Linear, Tensor, Tensor]:
    torch.manual_seed(0)
    head = nn.Linear(WIDTH, VOCAB, bias=bias).to(dtype)
    return (
        torch.randn(TOKENS, WIDTH).to(dtype),
        head,
        torch.randint(VOCAB, (TOKENS,)),
        torch.randn(TOKENS).to(dtype),
    )


def sinks(head: nn.Linear, dtype: torch.dtype) -> HeadGradients:
    bias = None if head.bias is None else torch.zeros_like(head.bias, dtype=dtype)
    return HeadGradients(torch.zeros_like(head.weight, dtype=dtype), bias)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("tile", [1, 4, 11, 64])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_log_probs_and_gradients_are_autograds(bias: bool, tile: int, temperature: float) -> None:
    hidden, head, targets, slopes = case(bias)
    leaf = hidden.clone().requires_grad_()
    wanted = torch.log_softmax(head(leaf) / temperature, -1).gather(-1, targets[:, None])[:, 0]
    wanted.backward(slopes)
    gradients = sinks(head, torch.float64)
    found = head_pass(
        hidden,
        head,
        targets,
        slope_of=lambda _, part: slopes[part],
        gradients=gradients,
        tile=tile,
        temperature=temperature,
    )
    assert torch.allclose(found.logps_N, wanted.detach(), rtol=1e-12)
    assert torch.allclose(found.hidden_grad_ND, leaf.grad, rtol=1e-10)
    assert torch.allclose(gradients.weight_VD, head.weight.grad, rtol=1e-10)
    if bias:
        assert torch.allclose(gradients.bias_V, head.bias.grad, rtol=1e-10)


def test_gradients_add_to_what_is_there() -> None:
    hidden, head, targets, slopes = case(True)
    gradients = sinks(head, torch.float64)
    passes = {"slope_of": lambda _, part: slopes[part], "gradients": gradients, "tile": 4}
    head_pass(hidden, head, targets, **passes)
    once = gradients.weight_VD.clone()
    head_pass(hidden, head, targets, **passes)
    assert torch.allclose(gradients.weight_VD, 2 * once, rtol=1e-12)


def test_without_slopes_there_is_no_gradient() -> None:
    hidden, head, targets, _ = case(False)
    assert head_pass(hidden, head, targets, slope_of=None, gradients=None, tile=4).hidden_grad_ND is None


def test_a_frozen_head_passes_the_gradient_on() -> None:
    hidden, head, targets, slopes = case(False)
    frozen = HeadGradients(None, None)
    found = head_pass(hidden, head, targets, slope_of=lambda _, part: slopes[part], gradients=frozen, tile=4)
    assert found.hidden_grad_ND.norm() > 0


def test_a_bfloat16_head_adds_up_in_float32() -> None:
    hidden, head, targets, slopes = case(False, torch.bfloat16)
    gradients = sinks(head, torch.float32)
    found = head_pass(
        hidden, head, targets, slope_of=lambda _, part: slopes[part].float(), gradients=gradients, tile=4
    )
    assert found.logps_N.dtype == gradients.weight_VD.dtype == torch.float32
    assert found.hidden_grad_ND.dtype == torch.bfloat16


@pytest.mark.parametrize("block_bytes", [1, 60, 2**20])
def test_a_narrow_heads_gradient_does_not_depend_on_its_blocks(
    block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head_module, "NARROW_BLOCK_BYTES", block_bytes)
    hidden, head, targets, slopes = case(False, torch.bfloat16)
    gradients = sinks(head, torch.float32)
    head_pass(
        hidden, head, targets, slope_of=lambda _, part: slopes[part].float(), gradients=gradients, tile=64
    )
    onehot = torch.nn.functional.one_hot(targets, VOCAB)
    wanted = ((onehot - head(hidden).float().softmax(-1)) * slopes.float()[:, None]).T @ hidden.float()
    assert torch.allclose(gradients.weight_VD, wanted, rtol=0.02, atol=0.05)


def test_entropy_of_a_uniform_head_is_log_vocab() -> None:
    hidden, head, targets, _ = case(False)
    nn.init.zeros_(head.weight)
    found = head_pass(hidden, head, targets, slope_of=None, gradients=None, tile=64)
    assert torch.allclose(found.entropies_M, torch.tensor(float(VOCAB), dtype=torch.float64).log())
