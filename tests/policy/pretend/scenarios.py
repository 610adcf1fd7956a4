"""What the update, generation and the hand-over of weights do on a pretend device: `python -m tests.policy.pretend.scenarios`.

Prints one JSON object: for each scenario its counts, and how far its result lies from the CPU's.
"""

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from swarmd.policy.generation import drawing
from swarmd.policy.generation.engine import Sampling
from swarmd.policy.generation.padded import PaddedRows
from swarmd.policy.generation.transformers_engine import TransformersEngine
from swarmd.policy.state.weights import load_weights, named_tensors, save_weights
from swarmd.policy.update.floor import Floors
from swarmd.policy.update.self_check import SelfCheck
from tests.policy.pretend import device
from tests.policy.pretend.device import DEVICE, Counts, OnDevice, Pretend, put_on_device
from tests.policy.tiny_models import build, round_of
from tests.policy.update.optimizers.policies import KINDS, learner_on

NARROW = torch.bfloat16
SAMPLING = Sampling(num_completions=3, temperature=1.0, tokens_max=12, seed=1)
CHECKED = SelfCheck(True, "of another scenario")
PROMPTS = [[5, 6, 7], [9, 8], [4, 3, 2, 1, 7, 9, 11]]


def report(counts: Counts, **more: Any) -> dict[str, Any]:
    return {
        "syncs": dict(counts.syncs),
        "uploads": dict(counts.uploads),
        "background": sum(counts.background.values()),
        **more,
    }


def host(tensor: Tensor) -> Tensor:
    return (tensor.inner if isinstance(tensor, OnDevice) else tensor).detach().float()


def weights(model: torch.nn.Module) -> Tensor:
    """All of them, in one row on the host."""
    return torch.cat([host(tensor).reshape(-1) for tensor in named_tensors(model).values()])


def update(
    kind: str,
    *,
    layers: int = 2,
    dtype: torch.dtype = NARROW,
    floors: Floors | None = None,
    no_float64: bool = False,
    self_check: bool = False,
    **how: Any,
) -> dict[str, Any]:
    """The counts of a second update; the first one has its own, and checks itself where asked to."""
    given = {"micro_batch_tokens": 40, "learning_rate": 0.5, "adam_eps": 0.1, **how}
    models = [build(dtype=dtype, num_hidden_layers=layers) for _ in range(2)]
    start = weights(models[0])
    put_on_device(models[0])
    device.no_float64 = no_float64
    with Pretend() as first:
        learner = learner_on(models[0], kind, device=DEVICE, **given)
        learner._check = None if self_check else CHECKED
        learner.update(round_of())
    first_counts = first.counts
    with Pretend() as second:
        stats = learner.update(round_of(1), floors or Floors())
    counts = second.counts
    device.no_float64 = False
    twin = learner_on(models[1], kind, **given)
    twin._check = CHECKED
    twin.update(round_of())
    wanted = twin.update(round_of(1), floors or Floors())
    assert (stats.skipped, stats.fast_path, stats.num_steps) == (None, True, wanted.num_steps)
    return report(
        counts,
        packs=stats.num_micro_batches,
        first_syncs=sum(first_counts.syncs.values()),
        apart=float((weights(models[0]) - weights(models[1])).norm() / (weights(models[1]) - start).norm()),
        logp_apart=abs((stats.mean_logp_local or 0) - (wanted.mean_logp_local or 0)),
    )


def engine(model: Any) -> TransformersEngine:
    return TransformersEngine(model, eos_ids=[0], pad_id=0, batch_tokens_max=100, context_tokens_max=64)


def generate(*, layers: int = 2, padded: bool = False, no_float64: bool = False) -> dict[str, Any]:
    """The counts of a second call; the first one chooses how rows lie."""
    models = [build(num_hidden_layers=layers) for _ in range(2)]
    put_on_device(models[0])
    device.no_float64 = no_float64
    drawing.NARROW_ONLY = ("mps", DEVICE.type) if no_float64 else ("mps",)
    with Pretend():
        ours = engine(models[0])
        ours.generate(PROMPTS, replace(SAMPLING, tokens_max=2))
    steps, prefills = [], []
    if padded:
        ours._new_rows = lambda num_rows: PaddedRows(ours._decoder)
    make, prefill = ours._make_rows, ours._decoder.prefill
    ours._make_rows = lambda num: counted(make(num), steps)  # type: ignore[method-assign]
    ours._decoder.prefill = lambda prompts: (prefills.append(1), prefill(prompts))[1]  # type: ignore[method-assign]
    with Pretend() as second:
        found = ours.generate(PROMPTS, SAMPLING)
    counts = second.counts
    device.no_float64, drawing.NARROW_ONLY = False, ("mps",)
    wanted = engine(models[1]).generate(PROMPTS, SAMPLING)
    same = [[s.ids for s in row] for row in found] == [[s.ids for s in row] for row in wanted]
    return report(counts, steps=len(steps), prefills=len(prefills), same=same)


def counted(rows: Any, steps: list[int]) -> Any:
    forward: Callable[..., Any] = rows.forward
    rows.forward = lambda *args: (steps.append(1), forward(*args))[1]
    return rows


def hand_over() -> dict[str, Any]:
    """Weights of one model on the device through a file into another one there."""
    giver, taker = build(dtype=NARROW, seed=1), build(dtype=NARROW, seed=2)
    put_on_device(giver)
    put_on_device(taker)
    with tempfile.TemporaryDirectory() as folder, Pretend() as both:
        load_weights(taker, save_weights(giver, Path(folder), 1))
        num = len(named_tensors(giver))
    return report(both.counts, tensors=num, same=bool((weights(giver) == weights(taker)).all()))


def mixed() -> dict[str, Any]:
    """The device refuses what CUDA refuses."""
    with Pretend() as pretend:
        here, there = torch.ones(3).to(DEVICE), torch.ones(3)
        refused = []
        for attempt in (lambda: here + there, lambda: here[there.long()], lambda: torch.cat([here, there])):
            try:
                attempt()
            except RuntimeError as error:
                refused.append(str(error))
        for wait in (lambda: here.sum().item(), lambda: here[here > 0], here.cpu, here.tolist, here.nonzero):
            wait()
    return report(pretend.counts, refused=len(refused))


def main() -> None:
    """Run them all."""
    torch.set_num_threads(1)
    found = {"mixed": mixed(), "hand-over": hand_over()}
    for kind in ("adamw", "host", "lora"):
        found[f"update float32 {kind}"] = update(kind, dtype=torch.float32, self_check=True)
    found["update resident"] = update("adamw", self_check=True)
    for kind in KINDS:
        found[f"update {kind}"] = update(kind, checkpointing=True)
    found["update deep"] = update("adamw", layers=4, self_check=True)
    found["update cut small"] = update("adamw", micro_batch_tokens=12)
    found["update with floors"] = update("adamw", floors=Floors(-50.0))
    found["update without float64"] = update("adamw", no_float64=True)
    found["generate"] = generate()
    found["generate deep"] = generate(layers=4)
    found["generate padded"] = generate(padded=True)
    found["generate padded deep"] = generate(padded=True, layers=4)
    found["generate without float64"] = generate(no_float64=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
