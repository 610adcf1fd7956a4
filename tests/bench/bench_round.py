"""A round end to end, generation and update, ours against a serial loop as GenRL runs it. Exits 1 below twice its speed.

A second row, `round_half_billion`, takes a round of half a billion parameters apart.

Both sides are real child processes, driven through their socket as the daemon does it: op `generate`, rewards, op `update`. Ours is
`PolicyService` with both roles; the other is `serial_loop`: `transformers.generate` for the whole batch, then TRL's update, tuned.
The same prompts of the embedded swarm's questions, 8 x 8 completions of mixed lengths, a random policy of 0.8 M parameters, one
thread. What is sampled differs, so times are per generated token that counts: up to and with the end token. Rewards alternate, so
every rollout is trained on.

Times are the child's CPU time. Its idle share is 1 - CPU / wall: on a machine that does other work too, mostly that work's.
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from swarmd.clients.policy import Generated, OwnCompletion
from swarmd.experience.rollouts import ScoredRollout
from swarmd.processes.values import typed
from swarmd.protocol.manifest import load_manifest
from swarmd.tiny.corpus import examples
from tests.bench import round_half_billion
from tests.bench.policy_process import Side, side
from tests.bench.update_work import save_policy
from tests.policy.services import scored
from tests.policy.settings import config

BAR = 2.0
NUM_ROUNDS = 5
QUESTIONS = COMPLETIONS = 8
TOKENS_MAX = 128
MICRO_BATCH = 64  # TRL's; the fastest that `make bench-update` finds for a model of this size
CONFIG = config(tokens_max=TOKENS_MAX, engine="transformers", threads=1).model_dump_json()


@dataclass(frozen=True)
class Round:
    """One round of one side: CPU seconds by phase, wall seconds of the whole, tokens that count."""

    generate_s: float
    update_s: float
    wall_s: float
    num_tokens: int

    @property
    def token_s(self) -> float:
        return (self.generate_s + self.update_s) / self.num_tokens


def play(policy: Side, prompts: list[str], number: int) -> Round:
    """Generate, reward every other completion, update."""
    began, before = time.perf_counter(), policy.cpu_s()
    answer = policy.ask(
        "generate",
        prompts=prompts,
        num_completions=COMPLETIONS,
        temperature=1.0,
        tokens_max=TOKENS_MAX,
        seed=number,
    )
    found = typed(Generated, answer)
    between = policy.cpu_s()
    rollouts = [
        _rollout(number * QUESTIONS + place, prompt, completions)
        for place, (prompt, completions) in enumerate(zip(prompts, found.completions_RG, strict=True))
    ]
    policy.ask("update", rollouts=rollouts, round=number, state={}, save="no")
    after = policy.cpu_s()
    return Round(between - before, after - between, time.perf_counter() - began, found.num_completion_tokens)


def _rollout(counter: int, prompt: str, completions: list[OwnCompletion]) -> ScoredRollout:
    rewarded = tuple(scored(own, float(place % 2)) for place, own in enumerate(completions))
    return ScoredRollout(bytes(32), 0, counter, prompt, rewarded, 0, 0, external=False)


def report(name: str, rounds: list[Round]) -> None:
    """One side's line: where a round's time goes, and how much of it nothing is computed."""
    generate_s, update_s, wall_s, num_tokens = (
        statistics.mean(getattr(one, field) for one in rounds)
        for field in ("generate_s", "update_s", "wall_s", "num_tokens")
    )
    cpu_s = generate_s + update_s
    print(
        f"{name:<12} generate {generate_s:.2f} s, update {update_s:.2f} s of CPU for {num_tokens:.0f} tokens: "
        f"{num_tokens / cpu_s:,.0f} tokens/s; idle {max(0.0, 1 - cpu_s / wall_s):.1%} of {wall_s:.2f} s"
    )


@contextmanager
def policy_folder() -> Iterator[str]:
    """A policy for the time being."""
    with tempfile.TemporaryDirectory() as folder:
        save_policy(Path(folder))
        yield folder


def compare() -> str:
    """Alternate rounds of both sides, print them, and compare; what is missed, or nothing."""
    manifest, rng = load_manifest("tiny"), random.Random(1)
    datasets = len(manifest.datasets)
    prompts = [
        [
            "\n".join(own.prompt for own in examples(manifest, place % datasets, rng.randint(1, 4), rng))
            for place in range(QUESTIONS)
        ]
        for _ in range(1 + NUM_ROUNDS)
    ]
    ours_args = {"roles": ["generate", "update"], "device": "cpu", "checkpoints_dir": None}
    with policy_folder() as folder:
        both = {"model_dir": folder, "config": CONFIG}
        with (
            side("swarmd.policy.service:PolicyService", **both, **ours_args) as ours,
            side("tests.bench.serial_loop:SerialLoop", **both, micro_batch=MICRO_BATCH) as serial,
        ):
            played = [
                (play(ours, own, number), play(serial, own, number)) for number, own in enumerate(prompts)
            ]
    kept = played[1:]  # the first round also checks, compiles and allocates
    report("ours", [own for own, _ in kept])
    report("serial loop", [other for _, other in kept])
    ratios = sorted(other.token_s / own.token_s for own, other in kept)
    ratio = statistics.median(ratios)
    print(f"\n{ratio:.2f}x a serial loop, per token ({ratios[0]:.2f} to {ratios[-1]:.2f})")
    return f"missed: {ratio:.2f}x, the bar is {BAR}x" if ratio < BAR else ""


def main() -> None:
    """Both rows, or one of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", choices=["", "serial", "0.5B"])
    only = parser.parse_args().only
    missed = compare() if only != "0.5B" else ""
    if only != "serial":
        round_half_billion.main()
    sys.exit(missed or None)


if __name__ == "__main__":
    main()
