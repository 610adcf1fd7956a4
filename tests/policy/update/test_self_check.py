"""The self-check tells a wrong fast path from rounding, however large the model's key biases are."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import count
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from swarmd.policy.update import attention, passes, self_check
from swarmd.policy.update.masters import MasterWeights
from swarmd.policy.update.one_layer import one_layer
from swarmd.policy.update.packing import PackTensors
from swarmd.policy.update.passes import Trained
from swarmd.policy.update.self_check import SelfCheck, check_packed_pass
from swarmd.policy.update.weighting import weigh
from tests.policy.settings import config, execution
from tests.policy.tiny_models import build, round_of

NARROW, WIDE = torch.bfloat16, torch.float32
BIASES = (0, 1, 5, 30, 100)
SHAPES = {
    "wide weights": {"initializer_range": 0.15},
    "a language model's weights": {"hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2,
                                   "num_hidden_layers": 3, "initializer_range": 0.02},
    "deep": {"hidden_size": 32, "num_hidden_layers": 9, "initializer_range": 0.05},
    "broad": {"hidden_size": 448, "intermediate_size": 1216, "num_attention_heads": 7, "num_hidden_layers": 1,
              "initializer_range": 0.02},
}  # fmt: skip


def model_with(key_bias: float, dtype: torch.dtype, **shape: Any) -> PreTrainedModel:
    """Key biases of that standard deviation, as Qwen2.5 has them, and query biases of 1."""
    model = build(dtype=dtype, **shape)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for layer in model.model.layers:
            for linear, spread in ((layer.self_attn.k_proj, key_bias), (layer.self_attn.q_proj, 1.0)):
                linear.bias.copy_(spread * torch.randn(linear.bias.shape, generator=generator))
    return model


def check(model: PreTrainedModel) -> SelfCheck:
    settings = config()
    trained = Trained(model, MasterWeights(model), settings, execution())
    return check_packed_pass(trained, weigh(round_of(), settings))


@pytest.mark.parametrize("dtype", [WIDE, NARROW])
@pytest.mark.parametrize("key_bias", BIASES)
@pytest.mark.parametrize("shape", SHAPES)
def test_an_honest_fast_path_passes(shape: str, key_bias: float, dtype: torch.dtype) -> None:
    found = check(model_with(key_bias, dtype, **SHAPES[shape]))
    assert found.passed, found.detail


Patch = pytest.MonkeyPatch


@cache
def model_of(shape: str, key_bias: float, dtype: torch.dtype) -> PreTrainedModel:
    return model_with(key_bias, dtype, **SHAPES[shape])


PLAIN_PASSES: dict[tuple[PreTrainedModel, int], dict[str, Tensor]] = {}


def remember_plain_passes(patch: Patch, model: PreTrainedModel) -> None:
    """No defect changes what the plain passes of a model find: the check's next ones are those of its first defect."""
    real, numbers = self_check._measure, count()

    def measure(run: Any, *args: Any) -> dict[str, Tensor]:
        if run is not passes.plain_pass:
            return real(run, *args)
        place = (model, next(numbers))
        if place not in PLAIN_PASSES:
            PLAIN_PASSES[place] = real(run, *args)
        return PLAIN_PASSES[place]

    patch.setattr(self_check, "_measure", measure)


def of_tensors(mutate: Callable[[PackTensors], PackTensors]) -> Callable[[Patch], None]:
    """A defect of what the packed pass alone computes from a pack."""

    def apply(patch: Patch) -> None:
        real = passes.packed_pass

        def defective(trained: Trained, pack: Any, with_gradient: bool) -> Any:
            with pytest.MonkeyPatch.context() as inner:
                collate = passes.collate
                inner.setattr(passes, "collate", lambda *args: mutate(collate(*args)))
                return real(trained, pack, with_gradient)

        patch.setattr("swarmd.policy.update.self_check.packed_pass", defective)

    return apply


def of_blocks(mutate: Callable[[list[Any]], list[Any]]) -> Callable[[Patch], None]:
    """A defect of the layout."""

    def apply(patch: Patch) -> None:
        real = passes.layout_of
        patch.setattr(passes, "layout_of", lambda *args: tuple(mutate(list(real(*args)))))

    return apply


def of_masks(mutate: Callable[[Tensor, int], Tensor]) -> Callable[[Patch], None]:
    """A defect of the masks, given each with the number of its first own column."""

    def mutated(block: Any) -> Any:
        mask = block.visible_QK
        if mask is None:
            return block
        return replace(block, visible_QK=mutate(mask, mask.shape[1] - block.num_tokens))

    return of_blocks(lambda blocks: [mutated(block) for block in blocks])


def of_attention(mutate: Callable[..., dict[str, Any]]) -> Callable[[Patch], None]:
    def apply(patch: Patch) -> None:
        real = attention.prompt_sharing_attention

        def defective(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: None, **more: Any) -> Any:
            changed = {"query": query, "key": key, "value": value, **more}
            return real(module, attention_mask=mask, **(changed | mutate(**changed)))

        patch.setitem(attention.AttentionInterface._global_mapping, attention.PROMPT_SHARING, defective)

    return apply


def of_head(mutate: Callable[[Any], Any]) -> Callable[[Patch], None]:
    def apply(patch: Patch) -> None:
        real = passes.head_pass
        patch.setattr(passes, "head_pass", lambda *args, **options: mutate(real(*args, **options)))

    return apply


def positions_from_zero(tensors: PackTensors) -> PackTensors:
    parts = [part for segment in tensors.segments for part in (segment.prompt, *segment.completions)]
    return replace(tensors, positions_T=torch.cat([torch.arange(part.stop - part.start) for part in parts]))


def see_the_neighbour(blocks: list[Any]) -> list[Any]:
    """The last completion's queries see the completion before them instead of as many tokens of their prompt."""
    *rest, last = blocks
    before = rest[-1]
    keys = (*last.keys[:-1], len(rest) - 1, last.keys[-1])
    visible = torch.cat(
        [last.visible_QK[:, : -last.num_tokens], torch.ones(last.num_tokens, before.num_tokens, dtype=torch.bool),
         last.visible_QK[:, -last.num_tokens :]], 1)  # fmt: skip
    return [*rest, replace(last, keys=keys, visible_QK=visible)]


def only_short(blocks: list[Any]) -> list[Any]:
    """A dense block whose groups see each other."""
    first, *rest = blocks
    return [replace(first, visible_QK=torch.ones_like(first.visible_QK).tril()), *rest]


def without_prompt_gradient(key: Tensor, **_: Any) -> dict[str, Any]:
    return {"key": torch.cat([key[:, :, :3].detach(), key[:, :, 3:]], 2)}


def without_long_prompt_gradient(value: Tensor, layout: Any, **_: Any) -> dict[str, Any]:
    start = layout[0].num_tokens
    stop = start + layout[1].num_tokens
    parts = value[:, :, :start], value[:, :, start:stop].detach(), value[:, :, stop:]
    return {"value": torch.cat(parts, 2)}


def last_tile_lost(found: Any) -> Any:
    grad = found.hidden_grad_ND.clone()
    grad[-(len(grad) % 13 or 13) :] = 0
    return replace(found, hidden_grad_ND=grad)


def tile_shifted(found: Any) -> Any:
    """The gradients of the second tile lie one position too far."""
    grad = found.hidden_grad_ND.clone()
    grad[13:26] = grad[13:26].roll(1, 0)
    return replace(found, hidden_grad_ND=grad)


DEFECTS = {
    "positions run on": of_tensors(lambda t: replace(t, positions_T=torch.arange(len(t.ids_T)))),
    "positions of completions begin at zero": of_tensors(positions_from_zero),
    "predicted by itself": of_tensors(
        lambda t: replace(t, predictors_N=(t.predictors_N + 1).clamp(max=len(t.ids_T) - 1))
    ),
    "a neighbour is seen": of_blocks(see_the_neighbour),
    "groups see each other": of_blocks(only_short),
    "a mask one too far": of_masks(lambda mask, start: torch.ones_like(mask).tril(start + 1) & (mask | mask.roll(1, 1))),
    "a mask one too near": of_masks(lambda mask, start: mask.tril(start - 1) | torch.ones_like(mask).tril(-mask.shape[1] + 2)),
    "a prompt sees what follows": of_masks(lambda mask, start: mask | (torch.arange(mask.shape[1]) < start + 6)),
    "wrong scaling": of_attention(lambda scaling, **_: {"scaling": 1.1 * scaling}),
    "a short prompt's gradient dropped": of_attention(without_prompt_gradient),
    "a long prompt's gradient dropped": of_attention(without_long_prompt_gradient),
    "the last tile lost": of_head(last_tile_lost),
    "a tile shifted": of_head(tile_shifted),
    "too steep": of_head(lambda found: replace(found, hidden_grad_ND=1.05 * found.hidden_grad_ND)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [WIDE, NARROW])
@pytest.mark.parametrize("key_bias", BIASES)
@pytest.mark.parametrize("shape", ["wide weights", "a language model's weights"])
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_wrong_fast_path_is_refused(
    monkeypatch: pytest.MonkeyPatch, defect: str, shape: str, key_bias: float, dtype: torch.dtype
) -> None:
    model = model_of(shape, key_bias, dtype)
    remember_plain_passes(monkeypatch, model)
    DEFECTS[defect](monkeypatch)
    found = check(model)
    assert not found.passed
    assert found.detail.startswith("relative difference"), "it must be compared, and not fail to run"


def test_a_pass_that_is_wrong_in_the_models_own_precision_alone_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a kernel for narrow numbers can be: nothing shows in float32."""

    def narrow_only(found: Any) -> Any:
        grad = found.hidden_grad_ND
        return replace(found, hidden_grad_ND=grad * 1.3 if grad.dtype == NARROW else grad)

    of_head(narrow_only)(monkeypatch)
    found = check(model_with(5, NARROW))
    assert not found.passed
    assert "rounding" in found.detail


def test_one_wrong_layer_is_enough() -> None:
    model = model_with(0, WIDE, num_hidden_layers=4)
    real, wrong = attention.prompt_sharing_attention, model.model.layers[2].self_attn.q_proj

    def defective(module: Any, query: Tensor, *args: Any, **more: Any) -> Any:
        twisted = query.flip(1) if torch.equal(module.q_proj.weight, wrong.weight) else query
        return real(module, twisted, *args, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(attention.AttentionInterface._global_mapping, attention.PROMPT_SHARING, defective)
        assert not check(model).passed


def test_a_cut_model_shares_what_it_need_not_copy_and_leaves_the_whole_one_alone() -> None:
    model = build(num_hidden_layers=3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    cut = one_layer(model, 1, torch.tensor([5, 7, 9]), WIDE)
    shared = model.model.layers[1].mlp.up_proj.weight.data_ptr()
    assert cut.model.layers[0].mlp.up_proj.weight.data_ptr() == shared
    assert cut.get_output_embeddings().weight is cut.get_input_embeddings().weight
    cut(input_ids=torch.tensor([[0, 2, 1]]), use_cache=False).logits.sum().backward()
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
