"""One side of the update benchmark in a process of its own, so that its peak memory is its own: JSON lines in, JSON lines out."""

import json
import resource
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from swarmd.policy.update.packing import TokenRollout
from tests.bench.update_work import Work, build_model, build_round
from tests.policy.settings import learner_with

ON_CUDA = torch.cuda.is_available()
DEVICE = "cuda" if ON_CUDA else "cpu"
WARM_UP_S = 5.0  # what takes longer is not slower the first time


class OurSide:
    def __init__(self, shape: str, rollouts: Sequence[TokenRollout]) -> None:
        model = build_model(shape)
        self._learner = learner_with(model.bfloat16() if ON_CUDA else model, device=DEVICE)
        self._rollouts = rollouts

    def update(self, gradients_to: str | None = None) -> float:
        """Seconds of one update; before it, unmeasured, the gradient is written where asked."""
        if gradients_to:
            save(self._learner.gradients(self._rollouts)[1], gradients_to)
        stats: Any = None

        def run() -> None:
            nonlocal stats
            stats = self._learner.update(self._rollouts)

        seconds = seconds_of(run)
        assert stats.fast_path, stats.self_check
        assert stats.skipped is None, stats.skipped
        return seconds


class TrlSide:
    def __init__(self, shape: str, rollouts: Sequence[TokenRollout], options: dict[str, Any]) -> None:
        from tests.bench.trl_update import TrlOptions, TrlUpdate

        self._rollouts = rollouts
        self._options = TrlOptions(**options)
        self._update = TrlUpdate(build_model(shape).to(DEVICE), self._options)

    def update(self, gradients_to: str | None = None) -> float:
        seconds = seconds_of(lambda: self._update.backward(self._rollouts))
        if gradients_to:
            save(self._update.gradients(), gradients_to)
        return seconds + seconds_of(self._update.step)

    def estimate(self) -> float:
        """Seconds of an update from one micro-batch: unless altered all have one shape, as TRL pads them."""
        num_rows = sum(len(rollout.completions) for rollout in self._rollouts)
        taken = [seconds_of(lambda: self._update.backward(self._rollouts, micro_batches=1))]
        while sum(taken) < WARM_UP_S and len(taken) < 3:
            taken.append(seconds_of(lambda: self._update.backward(self._rollouts, micro_batches=1)))
        return min(taken) * num_rows / self._options.micro_batch


def seconds_of(run: Callable[[], object]) -> float:
    """CPU time of this process, which other processes disturb least; on CUDA time until the device is done."""
    clock = time.perf_counter if ON_CUDA else time.process_time
    began = clock()
    run()
    if ON_CUDA:
        torch.cuda.synchronize()
    return clock() - began


def save(gradients: dict[str, Tensor], path: str) -> None:
    save_file({name: gradient.float().cpu().contiguous() for name, gradient in gradients.items()}, path)


def peak_bytes() -> int:
    """Most this process (on CUDA: its tensors) held so far."""
    if ON_CUDA:
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def held_bytes() -> int:
    """What this process holds now."""
    if ON_CUDA:
        return torch.cuda.memory_allocated()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def matrix_rate() -> float:
    """FLOP/s of one large matrix product in the precision of the update, the best of a few."""
    size, dtype = (8192, torch.bfloat16) if ON_CUDA else (1024, torch.float32)
    one, other = (torch.randn(size, size, device=DEVICE).to(dtype) for _ in range(2))
    out = torch.empty_like(one)
    torch.mm(one, other, out=out)
    return 2 * size**3 / min(seconds_of(lambda: torch.mm(one, other, out=out)) for _ in range(10))


def main() -> None:
    """Serve commands until standard input ends."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    answers, sys.stdout = sys.stdout, sys.stderr  # libraries print
    given = json.loads(sys.argv[1])
    if given["side"] == "trl":
        import tests.bench.trl_update  # noqa: F401  what TRL imports is not its update's memory
    rollouts = build_round(Work(**given["work"]), given["vocab_size"], questions=given["questions"])
    side: OurSide | TrlSide | None = None
    for line in sys.stdin:
        command = json.loads(line)
        name = command.pop("do")
        if name == "build":
            side = None  # frees the one before
            kind = TrlSide if given["side"] == "trl" else OurSide
            side = kind(given["shape"], rollouts, **command)
            answer = None
        elif name in PROCESS_COMMANDS:
            answer = PROCESS_COMMANDS[name]()
        else:
            answer = getattr(side, name)(**command)
        print(json.dumps(answer), file=answers, flush=True)


PROCESS_COMMANDS = {"matrix_rate": matrix_rate, "held_bytes": held_bytes, "peak_bytes": peak_bytes}

if __name__ == "__main__":
    main()
