"""A model whose parameters are an engine's tensors, and the reasons why it is not; the engine here is only tensors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from swarmd.policy.generation.engine import Engine
from swarmd.policy.generation.shared_weights import FUSED, bind, load_beside, policy_in
from swarmd.policy.generation.transformers_engine import TransformersEngine
from swarmd.policy.model.loading import load_model
from swarmd.policy.update.lora import add_adapters
from swarmd.policy.update.masters import MasterWeights
from tests.policy.folders import build_folder
from tests.policy.tiny_models import KINDS, build

VOCAB_ROUNDED = 384
EMBEDDING, QKV, UP = (
    "model.embed_tokens.weight",
    "model.layers.0.self_attn.qkv_proj",
    "model.layers.1.mlp.gate_up_proj",
)


def engines(model: Any) -> dict[str, Tensor]:
    """The tensors of a vLLM that runs this model: fused, and with room for a rounder number of tokens."""
    found: dict[str, Tensor] = {}
    live = {name: one.detach() for name, one in model.named_parameters(remove_duplicate=False)}
    for name, tensor in live.items():
        fused = next((f for f, parts in FUSED.items() if any(f".{part}." in name for part in parts)), None)
        if fused is None:
            found[name] = tensor.clone()
            continue
        for part in FUSED[fused]:
            name = name.replace(f".{part}.", ".{}.")
        parts = [live[name.format(part)] for part in FUSED[fused]]
        found[name.format(fused)] = torch.cat(parts)
    for name in [name for name in found if "embed" in name or "lm_head" in name]:
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            found[name] = found[EMBEDDING]
        else:
            found[name] = torch.cat([found[name], torch.zeros(VOCAB_ROUNDED - len(found[name]), 64)])
    return found


def storages(tensors: Any) -> dict[int, int]:
    """Bytes by storage."""
    return {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in tensors}


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_is_a_view_with_the_numbers_that_it_had(kind: str) -> None:
    model, before = build(kind), build(kind)
    theirs = engines(model)
    assert bind(model, theirs) == ""
    assert storages(model.parameters()) == storages(theirs.values())
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before.get_parameter(name)), name


def test_a_step_on_the_parameters_is_a_step_of_the_engine() -> None:
    model = build()
    theirs = engines(model)
    bind(model, theirs)
    kept = {name: tensor.clone() for name, tensor in theirs.items()}
    adam = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    ids = torch.tensor([[5, 6, 7, 8]])
    model(ids, labels=ids).loss.backward()
    adam.step()
    rows = slice(0, len(kept[EMBEDDING]) - VOCAB_ROUNDED + 300)
    assert not any(torch.equal(tensor[rows], theirs[name][rows]) for name, tensor in kept.items())
    assert not theirs[EMBEDDING][300:].any()  # no token
    assert bind(build(), theirs).startswith("the engine holds other numbers")
    assert bind(model, theirs) == ""


def test_narrow_parameters_are_written_in_place_by_their_masters() -> None:
    model = build(dtype=torch.bfloat16)
    theirs = {
        name: tensor.to(torch.bfloat16) for name, tensor in engines(build(dtype=torch.bfloat16)).items()
    }
    theirs["lm_head.weight"] = theirs[EMBEDDING]
    assert bind(model, theirs) == ""
    masters = MasterWeights(model)
    for master in masters.by_name.values():
        master.fill_(0.25)
    masters.to_model()
    assert storages(model.parameters()) == storages(theirs.values())
    assert bool((theirs[f"{QKV}.weight"] == 0.25).all())


def without(name: str) -> Callable[[dict[str, Tensor]], object]:
    return lambda tensors: tensors.pop(name)


def changed(name: str, change: Callable[[Tensor], Tensor]) -> Callable[[dict[str, Tensor]], object]:
    return lambda tensors: tensors.update({name: change(tensors[name])})


def renamed(name: str, other: str) -> Callable[[dict[str, Tensor]], object]:
    return lambda tensors: tensors.update({other: tensors.pop(name)})


def inference(tensor: Tensor) -> Tensor:
    with torch.inference_mode():
        return tensor.clone()


REFUSALS = {
    "another type": (changed(f"{UP}.weight", lambda t: t.to(torch.float16)), "is torch.float16, the model's"),
    "packed": (changed("model.layers.0.mlp.down_proj.weight", lambda t: t.new_empty(0)), "has packed"),
    "missing": (without("model.norm.weight"), "the engine has no model.norm.weight"),
    "an unknown fused name": (renamed(f"{QKV}.weight", f"{QKV}_k.weight"), f"the engine has no {QKV}.weight"),
    "more": (lambda t: t.update({"sinks": torch.ones(3)}), "the engine's sinks is no parameter of the model"),
    "rows missing": (changed(f"{QKV}.bias", lambda t: t[:-1]), "has shape"),
    "rows too many": (changed("model.norm.weight", lambda t: torch.cat([t, t])), "has shape"),
    "transposed": (changed("model.layers.0.mlp.down_proj.weight", lambda t: t.t().contiguous()), "has shape"),
    "another order of rows": (changed(f"{UP}.weight", lambda t: t.flip(0)), "other numbers in"),
    "laid out in columns": (
        changed("model.layers.0.self_attn.o_proj.weight", lambda t: t.t().contiguous().t()),
        "cannot be written",
    ),
    "only for reading": (changed("model.norm.weight", inference), "cannot be written in place"),
}


@pytest.mark.parametrize(("spoil", "why"), REFUSALS.values(), ids=REFUSALS)
def test_an_engine_that_lays_its_weights_out_otherwise_leaves_the_model_alone(
    spoil: Callable[[dict[str, Tensor]], object], why: str
) -> None:
    model = build()
    own, theirs = storages(model.parameters()), engines(model)
    spoil(theirs)
    assert why in bind(model, theirs)
    assert storages(model.parameters()) == own


def test_a_model_that_saves_more_than_parameters_does_not_share() -> None:
    model = build()
    theirs = engines(model)
    model.model.register_buffer("expert_bias", torch.zeros(2))
    assert bind(model, theirs) == "model.expert_bias is no parameter"


class OnlyTensors(TransformersEngine):
    """Transformers' engine on tensors apart from its own module."""

    keeps_weights = True
    own_forward = True

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self._tensors = tensors

    def tensors(self) -> dict[str, Tensor]:
        return self._tensors


@pytest.mark.parametrize("fits", [True, False])
def test_a_model_is_loaded_onto_the_engines_tensors_or_beside_them(tmp_path: Path, fits: bool) -> None:
    folder = build_folder(tmp_path / "model", hidden=64)
    theirs = engines(load_model(folder, "cpu"))
    if not fits:
        del theirs["model.norm.weight"]
    engine: Engine = OnlyTensors(theirs)
    model, why = load_beside(engine, folder, "cpu")
    assert (engine.keeps_weights, bool(why)) == (not fits, not fits)
    assert (storages(model.parameters()).keys() <= storages(theirs.values()).keys()) == fits


def test_the_engine_sees_adapters_merged_and_the_learner_never_does() -> None:
    model = build()
    theirs = engines(model)
    engine = OnlyTensors(theirs)
    engine.keeps_weights = bool(bind(model, theirs))
    add_adapters(model, 4)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter)
    before, calls = {name: tensor.clone() for name, tensor in theirs.items()}, list[str]()
    merged = set()

    def fail() -> None:
        with policy_in(engine, model, lambda: calls.append("released")):
            merged.update(name for name, tensor in theirs.items() if not torch.equal(tensor, before[name]))
            raise MemoryError

    with pytest.raises(MemoryError):
        fail()
    assert {name.rpartition(".")[0].rpartition(".")[2] for name in merged} == {*FUSED, "o_proj", "down_proj"}
    assert all(torch.equal(tensor, before[name]) for name, tensor in theirs.items())
    assert calls == ["released"]


def test_without_adapters_nobody_waits_for_a_checkpoint() -> None:
    model, calls = build(), list[str]()
    engine = OnlyTensors(engines(model))
    engine.keeps_weights = bool(bind(model, engine.tensors()))
    with policy_in(engine, model, lambda: calls.append("released")):
        pass
    assert calls == []
