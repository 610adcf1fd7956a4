"""Our update against TRL's: same rollouts, same weights, same gradient, one thread. Exits 1 when a bar is missed.

Each side is a process of its own; updates alternate, and a ratio is that of two neighbours. Times are CPU times, so that other
work on the machine disturbs little. The rows' lengths are as in a real round: prompts of 40 to 120 tokens, completions log-normal.

- **TRL tuned**: TRL 1.16's own loss and log-probs, float32, no gradient checkpointing, no pass for old log-probs, fused AdamW,
  the fastest of several micro-batch sizes (each timed in this run on one micro-batch: TRL pads all to one shape). Off CUDA its
  head scores every position, prompts and padding too, and holds several copies of a tile of logits.
- **TRL default**: what GRPOConfig says when asked for nothing: micro-batches of 8, checkpointing, bfloat16 autocast. From one
  micro-batch; at 39 M parameters from one row of it, since a CPU without bfloat16 arithmetic needs minutes for 8.
- **TRL altered**: tuned, and its source changed as no option of it can: head on completion tokens only, completions sorted by
  length, each micro-batch cut to its own longest. What padding and head alone cost TRL is the difference to "tuned".

Memory is the process's peak above what it held before the model was loaded. With CUDA it measures Qwen2.5-0.5B's shape instead,
ours in bfloat16 with float32 masters and TRL with bfloat16 autocast, times until the device is done, and the allocator's peak.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import PreTrainedModel

from swarmd.policy.update.packing import TokenRollout
from tests.bench.update_work import Work, build_model, build_round

GRADIENT_ERROR_MAX = 1e-5
DEFAULT = {"checkpointing": True, "bfloat16": True}
USUAL = Work()
LONG = Work(completion_median=160, completion_min=32, completion_max=512)


@dataclass(frozen=True)
class Row:
    """One line of the table: `bar` is the ratio to TRL tuned that must be reached, None for a row that is only reported."""

    name: str
    shape: str
    work: Work = USUAL
    bar: float | None = None
    questions: int = 8
    repeats: int = 5
    micro_batches: tuple[int, ...] = (8, 16, 32, 64)
    default_micro_batch: int = 8
    gradient_bar: bool = True


CPU_ROWS = (
    Row("0.9M", "0.9M", bar=4.0),
    Row("0.9M, 5 of 8 rollouts all equal", "0.9M", Work(informative=3), repeats=3, micro_batches=(16, 64)),
    Row("0.9M, long completions", "0.9M", LONG, repeats=2, micro_batches=(8, 16)),
    Row("embedded policy", "tiny", repeats=3, micro_batches=(16, 64)),
    # Half as many questions and two sizes: TRL needs 9 s and 3.5 GB for each 8 rows, and larger micro-batches were slower.
    Row(
        "39M, 4 questions",
        "39M",
        bar=6.0,
        questions=4,
        repeats=2,
        micro_batches=(4, 8),
        default_micro_batch=1,
    ),
)
CUDA_ROWS = (
    Row("0.5B", "0.5B", gradient_bar=False),
    Row("0.5B, long completions", "0.5B", LONG, gradient_bar=False),
)


class Child:
    """A process of `update_child`: `ask` names one of its commands."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, do: str, **arguments: Any) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps({"do": do, **arguments}), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            sys.exit(f"the measured process ended at {do!r} with status {self._process.wait()}")
        return json.loads(answer)


@contextmanager
def child(row: Row, vocab_size: int, side: str) -> Iterator[Child]:
    """Start one side's process, still without a model."""
    given = {
        "side": side,
        "shape": row.shape,
        "work": asdict(row.work),
        "vocab_size": vocab_size,
        "questions": row.questions,
    }
    command = [sys.executable, "-m", "tests.bench.update_child", json.dumps(given)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Child(process)
        finally:
            process.kill()


@dataclass
class Found:
    """A row's figures. Seconds are of one update, `ratios` of neighbouring updates."""

    micro_batch: int
    ours_s: list[float]
    tuned_s: list[float]
    default_s: float | None  # of the rows that have a bar
    altered_s: float | None
    matrix_rate: float
    gradient_error: float
    ours_bytes: int
    trl_bytes: int

    @property
    def ratios(self) -> list[float]:
        return sorted(trl / ours for trl, ours in zip(self.tuned_s, self.ours_s, strict=True))


def measure(row: Row, vocab_size: int, folder: Path) -> Found:
    """All processes of one row, one after another but for the two that alternate."""
    with child(row, vocab_size, "trl") as trl:
        times = {}
        for size in row.micro_batches:
            trl.ask("build", options={"micro_batch": size})
            times[size] = trl.ask("estimate")
        best = min(times, key=times.__getitem__)
        default_s = altered_s = None
        if row.bar is not None:
            trl.ask("build", options=DEFAULT | {"micro_batch": row.default_micro_batch})
            default_s = trl.ask("estimate")
            trl.ask("build", options={"micro_batch": min(row.micro_batches), "altered": True})
            altered_s = trl.ask("update")
    with child(row, vocab_size, "ours") as ours, child(row, vocab_size, "trl") as trl:
        sides = {"ours": ours, "trl": trl}
        held = {name: side.ask("held_bytes") for name, side in sides.items()}
        ours.ask("build")
        trl.ask("build", options={"micro_batch": best})
        files = {name: str(folder / f"{name}.safetensors") for name in sides}
        seconds: dict[str, list[float]] = {name: [] for name in sides}
        for name, side in sides.items():  # the first updates are slower: pages are fetched, moments are made
            side.ask("update", gradients_to=files[name])
        for _ in range(row.repeats):
            for name, side in sides.items():
                seconds[name].append(side.ask("update"))
        peaks = {name: side.ask("peak_bytes") - held[name] for name, side in sides.items()}
        rate = ours.ask("matrix_rate")
    return Found(
        best,
        seconds["ours"],
        seconds["trl"],
        default_s,
        altered_s,
        rate,
        gradient_error(files["ours"], files["trl"]),
        peaks["ours"],
        peaks["trl"],
    )


def gradient_error(ours: str, theirs: str) -> float:
    """Norm of the difference over the norm of TRL's gradient, all parameters together."""
    one, other = load_file(ours), load_file(theirs)
    assert one.keys() == other.keys()
    difference = sum((one[name].double() - other[name].double()).square().sum() for name in other)
    return float((difference / sum(values.double().square().sum() for values in other.values())) ** 0.5)


def flops(model: PreTrainedModel, rollouts: list[TokenRollout]) -> tuple[int, int]:
    """Floating-point operations that the informative rollouts' update needs at least, and the round's trained tokens.

    Six for each weight and position (the head's only where a token is predicted), and for each pair of tokens that attend
    twelve for each channel; each prompt once.
    """
    config = model.config
    head = model.get_output_embeddings().weight.numel()
    trunk = (
        sum(p.numel() for p in model.base_model.parameters()) - model.get_input_embeddings().weight.numel()
    )
    channels = config.num_hidden_layers * model.base_model.layers[0].self_attn.q_proj.out_features
    total = num_tokens = 0
    for rollout in rollouts:
        num_prompt, lengths = len(rollout.prompt_ids), [len(own.ids) for own in rollout.completions]
        num_tokens += sum(lengths)
        if all(own.advantage == 0 for own in rollout.completions):
            continue
        pairs = num_prompt**2 // 2 + sum((num - 1) * num_prompt + num**2 // 2 for num in lengths)
        total += 6 * trunk * (num_prompt + sum(lengths) - len(lengths))
        total += 6 * head * sum(lengths) + 12 * channels * pairs
    return total, num_tokens


def report(row: Row, found: Found, num_flops: int, num_tokens: int) -> list[str]:
    """Print a row; the bars it missed."""
    ratio = statistics.median(found.ratios)
    ours_s = statistics.median(found.ours_s)
    rate = num_flops / ours_s
    others = [("TRL default", found.default_s), ("TRL altered", found.altered_s)]
    more = "".join(f", {seconds / ours_s:.1f}x {name}" for name, seconds in others if seconds is not None)
    print(
        f"\n{row.name}: {ratio:.2f}x TRL tuned ({found.ratios[0]:.2f} to {found.ratios[-1]:.2f}, "
        f"its micro-batch {found.micro_batch}){more}\n"
        f"  update {ours_s:.3f} s, {num_tokens / ours_s:,.0f} completion tokens/s, {rate / 1e9:.1f} GFLOP/s, "
        f"{rate / found.matrix_rate:.0%} of the peak matrix rate ({found.matrix_rate / 1e9:.0f})\n"
        f"  gradient relative error {found.gradient_error:.1e}, "
        f"peak memory {found.ours_bytes / 2**20:,.0f} MiB, TRL {found.trl_bytes / 2**20:,.0f} MiB",
        flush=True,
    )
    missed = []
    if row.bar is not None and ratio < row.bar:
        missed.append(f"{row.name}: {ratio:.2f}x, the bar is {row.bar}x")
    if row.gradient_bar and not found.gradient_error <= GRADIENT_ERROR_MAX:
        missed.append(f"{row.name}: gradient error {found.gradient_error:.1e} above {GRADIENT_ERROR_MAX:.0e}")
    if found.ours_bytes > found.trl_bytes:
        missed.append(f"{row.name}: more memory than TRL")
    return missed


def main() -> None:
    """Measure every row, print it, and say which bars were missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="rows whose name begins so")
    only = parser.parse_args().only
    rows = CUDA_ROWS if torch.cuda.is_available() else CPU_ROWS
    missed = []
    for row in rows:
        if not row.name.startswith(only):
            continue
        model = build_model(row.shape)
        vocab_size = model.config.vocab_size
        num_flops, num_tokens = flops(model, build_round(row.work, vocab_size, questions=row.questions))
        del model
        with tempfile.TemporaryDirectory() as folder:
            missed += report(row, measure(row, vocab_size, Path(folder)), num_flops, num_tokens)
    if missed:
        sys.exit("\nmissed: " + "; ".join(missed))


if __name__ == "__main__":
    main()
