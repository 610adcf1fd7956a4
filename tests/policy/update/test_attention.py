"""Prompt-sharing attention: every choice of calls gives the same result, and models it cannot serve are named."""

import pytest
import torch
from torch import Tensor, nn

from swarmd.policy.fast_paths import UnsupportedAttention
from swarmd.policy.update import attention
from swarmd.policy.update.attention import (
    layout_of,
    prompt_sharing,
    prompt_sharing_attention,
    row_length_max,
)
from swarmd.policy.update.packing import Segment, members_of
from tests.policy.tiny_models import build

SEGMENTS = (
    Segment(slice(0, 3), (slice(3, 5), slice(5, 5), slice(5, 9))),
    Segment(slice(9, 10), (slice(10, 13),)),
)
TOKENS = 13
MEMBERS = tuple(map(torch.tensor, members_of(SEGMENTS)))


def states() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(1, 4, TOKENS, 8), torch.randn(1, 2, TOKENS, 8), torch.randn(1, 2, TOKENS, 8)


def attend(dense_tokens_max: int) -> Tensor:
    layout = layout_of(SEGMENTS, *MEMBERS, dense_tokens_max=dense_tokens_max)
    return prompt_sharing_attention(nn.Module(), *states(), None, layout=layout)[0]


@pytest.mark.parametrize(("dense_tokens_max", "num_calls"), [(13, 1), (12, 2), (4, 4), (0, 5)])
def test_many_calls_equal_one(dense_tokens_max: int, num_calls: int) -> None:
    assert len(layout_of(SEGMENTS, *MEMBERS, dense_tokens_max=dense_tokens_max)) == num_calls
    assert torch.allclose(attend(dense_tokens_max), attend(1000), atol=1e-6)


def test_keys_that_heads_share_need_no_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = []
    for grouped in (True, False):
        monkeypatch.setattr(attention, "takes_groups", lambda device, answer=grouped: answer)
        given = [state.requires_grad_() for state in states()]
        out = prompt_sharing_attention(
            nn.Module(), *given, None, layout=layout_of(SEGMENTS, *MEMBERS, dense_tokens_max=4)
        )[0]
        outcomes.append([out, *torch.autograd.grad(out.square().sum(), given)])
    for shared, copied in zip(*outcomes, strict=True):
        assert (shared - copied).norm() < 1e-6 * copied.norm()


def test_who_sees_whom() -> None:
    visible = layout_of(SEGMENTS, *MEMBERS)[0].visible_QK
    assert visible is not None
    assert visible[8].nonzero()[:, 0].tolist() == [0, 1, 2, 5, 6, 7, 8]  # its prompt and itself
    assert visible[11].nonzero()[:, 0].tolist() == [9, 10, 11]  # nothing of the other rollout


@pytest.mark.parametrize("name", ["softcap", "s_aux", "position_bias"])
def test_a_foreign_term_is_refused(name: str) -> None:
    layout = layout_of(SEGMENTS, *MEMBERS)
    with pytest.raises(UnsupportedAttention, match=name):
        prompt_sharing_attention(nn.Module(), *states(), None, layout=layout, **{name: torch.ones(1)})


def test_the_model_gets_its_attention_back() -> None:
    model = build()
    before = model.config._attn_implementation
    with pytest.raises(KeyError), prompt_sharing(model):
        raise KeyError
    assert model.config._attn_implementation == before


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({}, float("inf")),
        ({"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 0}, 16),
        ({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}, 0),
        ({"layer_types": ["full_attention", "full_attention"]}, float("inf")),
    ],
)
def test_how_long_a_row_may_be(config: dict[str, object], wanted: float) -> None:
    assert row_length_max(build(**config)) == wanted
