"""Where the time of a round of half a billion parameters goes, part by part. Random weights of Qwen2.5-0.5B's shape.

Real children, driven through their sockets: the policy process, which generates and updates, and the scorer. On CUDA a part has the
time of the host and the time that the host then waits for the device; one round more tells how long the device was at work. Without
CUDA the device is the CPU, so the round is small, and what the host waits for and copies is counted on the pretend device.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from swarmd.clients.policy import Generated
from swarmd.clients.scorer import Questions
from swarmd.processes.values import typed
from swarmd.protocol.manifest import load_manifest
from tests.bench import round_host
from tests.bench.policy_process import Side, side
from tests.bench.round_work import NARROW, external_answers, save_model, training_set
from tests.experience.batches import NOW_MS, batch, open_buffer
from tests.policy.settings import config
from tests.policy.test_half_billion import SHAPE

NUM_ROUNDS = 2  # after one that checks and allocates
POOL = 256  # external rollouts to draw from
Parts = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Size:
    """A round: as many external questions as own ones."""

    manifest: str
    questions: int
    completions: int
    tokens_max: int


ON_CUDA = torch.cuda.is_available()
SIZE = Size("reasoning", 4, 8, 256) if ON_CUDA else Size("tiny", 4, 4, 8)
COUNTED = Size("tiny", 4, 8, 32)


def main() -> None:
    """Print the table of a round, the counts, and what the host's parts take in rounds of real sizes."""
    with tempfile.TemporaryDirectory(prefix="bench-round-") as folder:
        rounds = played(SIZE, save_model(Path(folder, "model"), SHAPE), Path(folder))
        report(SIZE, rounds)
        if not ON_CUDA:
            report_counts(COUNTED, save_model(Path(folder, "narrow"), NARROW))
    round_host.main()


def played(size: Size, model: str, folder: Path) -> list[Parts]:
    """The rounds, each with the time of its parts."""
    device = "cuda" if ON_CUDA else "cpu"
    settings = config(tokens_max=size.tokens_max, learning_rate=1e-6).model_dump_json()
    own = {"roles": ["generate", "update"], "device": device, "config": settings, "checkpoints_dir": None}
    manifest = load_manifest(size.manifest).to_bytes()
    with (
        side("tests.bench.round_parts:TimedPolicy", model_dir=model, **own) as policy,
        side("swarmd.questions.service:ScorerService", manifest=manifest, sandbox="best-effort") as scorer,
        closing(open_buffer(folder)) as buffer,
    ):
        for number in range(POOL):
            buffer.add(
                batch(f"author {number % 16}", [number], num_completions=size.completions),
                ["question"],
                [[float(place % 2) for place in range(size.completions)]],
                received_ms=NOW_MS,
            )
        rounds = [one_round(size, number, policy, scorer, buffer) for number in range(1 + NUM_ROUNDS)]
        if ON_CUDA:
            policy.ask("watch")
            began_s = time.perf_counter()
            one_round(size, 9, policy, scorer, buffer)
            round_s = time.perf_counter() - began_s
            print(
                f"device at work {policy.ask('watched') / round_s:.0%} of a round of {round_s:.2f} s, each part waited for"
            )
    return rounds[1:]


def one_round(size: Size, number: int, policy: Side, scorer: Side, buffer: Any) -> Parts:
    """One round as the daemon drives it: questions, answers, scores, the draw, the update."""
    addresses = [[0, size.questions * number + place] for place in range(size.questions)]
    prompts = typed(Questions, scorer.ask("questions", addresses=addresses)).prompts
    parts: Parts = {"questions": {"host": scorer.seconds}}
    made = typed(Generated, policy.ask("generate", **asked(size, prompts, number)))
    asking_s = policy.seconds
    items = [(*address, texts) for address, texts in zip(addresses, made.texts_RG, strict=True)]
    scorer.ask("score", items=items, deadline_s=60.0)
    parts["score"] = {"host": scorer.seconds}
    began_s = time.perf_counter()
    buffer.sample(size.questions, random.Random(number), now_ms=NOW_MS)
    parts["draw others'"] = {"host": time.perf_counter() - began_s}
    others_RG = external_answers(prompts, size.completions, size.tokens_max // 2)
    rollouts = training_set(prompts, made, others_RG)
    policy.ask("update", rollouts=rollouts, round=number, state={}, save="no")
    asking_s += policy.seconds
    inside = policy.ask("parts")
    inside_s = sum(part.get(kind, 0.0) for part in inside.values() for kind in ("host", "waiting"))
    return {**parts, **inside, "messages": {"host": asking_s - inside_s}}


def asked(size: Size, prompts: list[str], seed: int) -> dict[str, Any]:
    """The arguments of `generate`."""
    return {
        "prompts": prompts,
        "num_completions": size.completions,
        "temperature": 1.0,
        "tokens_max": size.tokens_max,
        "seed": seed,
    }


def report(size: Size, rounds: list[Parts]) -> None:
    """The mean of the rounds, a line a part."""
    mean: Parts = {}
    for parts in rounds:
        for name, told in parts.items():
            of_part = mean.setdefault(name, {"host": 0.0, "waiting": 0.0})
            for kind in of_part:
                of_part[kind] += told.get(kind, 0.0) / len(rounds)
    total_s = sum(told["host"] + told["waiting"] for told in mean.values())
    where = "CUDA" if ON_CUDA else f"a CPU, {torch.get_num_threads()} threads, no other device"
    print(
        f"\n0.5B on {where}: {size.questions} own and as many external questions x {size.completions} completions of "
        f"{size.tokens_max} tokens, the mean of {len(rounds)} rounds of {total_s:.2f} s"
    )
    print(f"{'part':<24} {'host ms':>9} {'waiting ms':>11} {'of round':>9}")
    for name, told in mean.items():
        share = (told["host"] + told["waiting"]) / total_s
        print(f"{name:<24} {1000 * told['host']:9.1f} {1000 * told['waiting']:11.1f} {share:9.2%}")
    print("what a checkpoint holds a round up: make bench-checkpoint")


def report_counts(size: Size, model: str) -> None:
    """What each part waits for and copies, on the pretend device."""
    prompts = [f"what is one and {place}?" for place in range(size.questions)]
    given = {
        "generate": asked(size, prompts, 1),
        "external": external_answers(prompts, size.completions, size.tokens_max // 2),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.round_counts", model, json.dumps(given)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    parts: Parts = json.loads(done.stdout.splitlines()[-1])
    kinds = ("waits", "uploads", "background")
    print(
        f"\nOn the pretend device, a model as deep and narrow; {size.questions} and {size.questions} questions x "
        f"{size.completions} completions of at most {size.tokens_max} tokens"
    )
    print(f"{'part':<24} {'waits':>7} {'uploads':>8} {'copies in the background':>25}")
    for name, told in parts.items():
        if any(told.get(kind) for kind in kinds):
            waits, uploads, background = (int(told.get(kind, 0)) for kind in kinds)
            print(f"{name:<24} {waits:7} {uploads:8} {background:25}")
