"""The hand-over of weights to vLLM on the pretend device: `python -m tests.policy.pretend.vllm_hand_over` prints what it cost.

vLLM's CPU build starts on the CPU. Then its model and the learner's move to the device, and the engine takes the learner's weights
by the same calls as on CUDA. vLLM's kernels know nothing of the device, so nothing is generated there.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from swarmd.policy.generation.shared_weights import FUSED
from swarmd.policy.generation.vllm_engine import VllmEngine
from swarmd.policy.model.loading import load_model
from swarmd.policy.state.shapes import ModelShapes
from swarmd.policy.state.weights import named_tensors
from tests.policy.folders import build_folder
from tests.policy.pretend.device import DEVICE, OnDevice, Pretend, put_on_device


def started(model_dir: Path) -> VllmEngine:
    return VllmEngine(
        model_dir,
        device="cpu",
        shapes=ModelShapes.of_folder(model_dir),
        eos_ids=[0, 2],
        batch_tokens_max=512,
        context_tokens_max=64,
        can_share=True,  # without it the CPU build packs matrices, which no GPU does
    )


def model_of(engine: VllmEngine) -> nn.Module:
    """The model that vLLM runs in this process."""
    worker: Any = engine._engine.model_executor.driver_worker  # type: ignore[attr-defined]
    model: nn.Module = getattr(worker, "worker", worker).model_runner.get_model()
    return model


def move(model: nn.Module) -> None:
    """Put vLLM's model on the device, so that its next reload makes its tensors there."""
    from vllm.model_executor.model_loader.reload import layerwise, meta

    loaders = {name: vars(one) for name, one in model.named_parameters(remove_duplicate=False)}
    put_on_device(model)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        vars(parameter).update(
            {key: kept for key, kept in loaders[name].items() if key not in vars(parameter)}
        )
    for layer in model.modules():
        layerwise.get_layerwise_info(layer).restore_device = DEVICE
    meta.materialize_meta_tensor = materialised


def materialised(like: Tensor) -> Tensor:
    """vLLM's function of that name, which gives the new tensor the class of its parameter; here it stays one of the device."""
    made: Any = torch.empty_strided(like.size(), like.stride(), dtype=like.dtype, device=DEVICE)
    inner, kind = made.inner, type(like)
    made.__class__ = type(kind.__name__, (OnDevice, kind), {})
    made.__dict__ = {**vars(like), "inner": inner}
    return made  # type: ignore[no-any-return]


def as_learnt(engines: dict[str, OnDevice], learnt: dict[str, Tensor]) -> bool:
    """Whether each of the engine's tensors has the learner's numbers, fused as vLLM fuses them."""
    for name, tensor in engines.items():
        fused = next((fused for fused in FUSED if f".{fused}." in name), None)
        names = [name] if fused is None else [name.replace(fused, part) for part in FUSED[fused]]
        wanted = torch.cat([learnt[one] for one in names])
        if not torch.equal(
            tensor.inner[: len(wanted)], wanted
        ):  # the vocabulary has room for a rounder number
            return False
    return True


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    model_dir = build_folder(folder, hidden=128)
    engine, learner = started(model_dir), load_model(model_dir, "cpu")
    with torch.no_grad():
        for parameter in learner.parameters():
            parameter.add_(torch.randn_like(parameter))
    learnt = {name: tensor.detach().clone() for name, tensor in named_tensors(learner).items()}
    put_on_device(learner)
    model = model_of(engine)
    move(model)
    before: dict[str, Any] = dict(model.named_parameters())
    places = [tensor.data_ptr() for tensor in before.values()]
    found = [as_learnt(before, learnt)]
    with Pretend() as pretend:
        engine.load_weights(named_tensors(learner), 1)
    after: dict[str, Any] = dict(model.named_parameters())
    found.append(as_learnt(after, learnt))
    report = {
        "syncs": dict(pretend.counts.syncs),
        "uploads": dict(pretend.counts.uploads),
        "background": sum(pretend.counts.background.values()),
        "tensors": len(learnt),
        "as_learnt": found,
        "stayed": [tensor.data_ptr() for tensor in after.values()] == places,
    }
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
