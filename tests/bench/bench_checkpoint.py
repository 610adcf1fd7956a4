"""Checkpoints of half a billion parameters beside the rounds of their model: what a round waits for them, and what they write.

One process, `PolicyService` on one thread of the CPU with random weights of Qwen2.5-0.5B's shape, does the same round again and
again: without a checkpoint, with one in the background, and with one that is on disk before the round's answer. Exits 1 where the
model's process is held up for more than 3 % of a round by a checkpoint in the background.

On a CPU a round takes minutes where a GPU takes seconds, and device and host are one: the copy is one within the same memory. So
the seconds are this machine's; what carries over is who waits for what. Needs 20 GiB of memory and 30 GiB of disk.
"""

import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from swarmd.loops.pace import Pace, interval_s
from tests.policy.test_half_billion import BUILD, SHAPE

HELD_MAX = 0.03
ROUNDS = 3  # of each kind, in turn
QUESTIONS = 4  # of four completions of up to 12 tokens
ROUND_S = 3.0  # of a home GPU, by the estimate in docs/policy.md
GB_A_DAY = 1000.0


def main() -> None:
    """Build the model, run the rounds in a process of their own, print."""
    folder = Path(tempfile.mkdtemp(prefix="bench-checkpoint-"))
    try:
        subprocess.run([sys.executable, "-c", BUILD, str(folder / "model"), json.dumps(SHAPE)], check=True)
        child = [sys.executable, "-m", "tests.bench.bench_checkpoint", str(folder)]
        told = subprocess.run(child, check=True, stdout=subprocess.PIPE, text=True).stdout
    finally:
        shutil.rmtree(folder)
    sys.exit(report(json.loads(told.splitlines()[-1])))


def report(rounds: list[dict[str, float | str]]) -> int:
    """Print the table; the exit code."""
    kinds = {kind: [r for r in rounds if r["kind"] == kind] for kind in ("no", "background", "now")}
    print(f"{'checkpoint':<12} {'round s':>8} {'held s':>8} {'of round':>9} {'written s':>10} {'CPU s':>7}")
    for kind, of_kind in kinds.items():
        mean = {key: statistics.fmean(float(r[key]) for r in of_kind) for key in of_kind[0] if key != "kind"}
        print(
            f"{kind:<12} {mean['round']:8.1f} {mean['held']:8.2f} {mean['held'] / mean['round']:9.1%}"
            f" {mean['written']:10.1f} {mean['cpu']:7.1f}"
        )
    plain, saved = (statistics.fmean(float(r["cpu"]) for r in kinds[kind]) for kind in ("no", "background"))
    size_bytes = float(kinds["background"][0]["bytes"])
    print(
        f"a checkpoint has {size_bytes / 1e9:.2f} GB, and takes {saved - plain:.1f} s of CPU, beside the model's thread"
    )
    interval = interval_s(-1, int(size_bytes), GB_A_DAY * 1e9)
    for round_s in (ROUND_S, statistics.fmean(float(r["round"]) for r in kinds["no"])):
        pace = Pace(1, interval)
        num = len([pace.begun(n * round_s) for n in range(1, 101) if pace.due(n, n * round_s)])
        print(
            f"100 rounds of {round_s:.0f} s at the default interval write {num * size_bytes / 1e9:.1f} GB and at the end"
            f" {size_bytes / 1e9:.1f}; with a checkpoint a round {100 * size_bytes / 1e9:.0f} GB"
        )
    print(f"a day writes {86400 / interval * size_bytes / 1e9:.0f} GB, with a canary at most {GB_A_DAY:.0f}")
    held = max(float(r["held"]) / float(r["round"]) for r in kinds["background"])
    print(
        f"{'PASS' if held <= HELD_MAX else 'FAIL'}: held up for at most {held:.1%} of a round (bar {HELD_MAX:.0%})"
    )
    return int(held > HELD_MAX)


def rounds_of(folder: Path) -> list[dict[str, float | str]]:
    """The rounds, in this process."""
    from tests.policy.services import own_rollout, service

    policy = service(
        folder / "model", checkpoints=folder / "checkpoints", learning_rate=1e-6, tokens_max=16, threads=1
    )
    policy.start()
    found = list[dict[str, float | str]]()
    for number in range(1, 3 * ROUNDS + 2):
        kind = ("no", "background", "now")[number % 3]
        began_s, began_cpu_s = time.perf_counter(), _cpu_s()
        # the checkpoint of the round before is being written while this one runs
        own = [own_rollout(policy, f"what is one and {n}?", seed=number, counter=n) for n in range(QUESTIONS)]
        answer = policy.update(own, number, {"round": number}, "now" if kind == "now" else "no")
        round_s = time.perf_counter() - began_s
        saved = answer.saved
        if kind == "background":
            saved = policy._saving.outcome(wait=True) if policy._saving and not saved.round else saved
        found.append(
            {
                "kind": kind,
                "round": round_s,
                "held": saved.seconds_held or 0.0,
                "written": saved.seconds or 0.0,
                "cpu": _cpu_s() - began_cpu_s,
                "bytes": saved.size_bytes,
            }
        )
        if number % 3 == 0:  # the next is a round beside a checkpoint
            policy.update([], number, {"round": number}, "background")
    return found[1:]  # the first also compares the ways of computing the update


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(rounds_of(Path(sys.argv[1]))))
    else:
        main()
