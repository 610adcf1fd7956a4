"""`make chaos`: faults of every kind against real nodes that share, then what must hold whatever happened; exits 1 where not.

Three nodes, one of them split, suffer their faults at once; after them, where it is installed, one that generates with vLLM's CPU
build. The plan follows from the seed; which system call or moment a fault meets does not, because the nodes are real.
"""

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from swarmd.experiment.swarms.local_swarm import LocalSwarm
from tests.chaos import invariants
from tests.chaos.faults import KINDS
from tests.chaos.shim import COMPILER, Shim
from tests.chaos.target import NotBack, Target
from tests.e2e.watch import FAST

NUM_NODES, SPLIT, VLLM = 3, 2, 3
OF_SPLIT = "kill -9 learner of a split node"
# Said apart: to load vLLM takes longer than to load tiny's engine.
OF_VLLM = "vLLM: "
VLLMS = [
    f"{OF_VLLM}{kind}" for kind in ("kill -9 model's process", "kill -9 daemon", "kill -9 model's process")
]
GOALS_S = {"kill -9 daemon": 15.0, "kill -9 model's process": 12.0}


@dataclass(frozen=True)
class Done:
    """A fault that a node survived, or did not: `wrong` says what was not as it should be."""

    kind: str
    node: str
    num_lost: int
    seconds: float
    wrong: tuple[str, ...]


def main() -> None:
    """Plan, run, check, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of the faults; kinds stay")
    parser.add_argument("--only", default="", help="kinds that hold this text")
    parser.add_argument("--keep", type=Path, help="leave the nodes' directories here")
    options = parser.parse_args()
    if COMPILER is None:
        sys.exit("make chaos needs a C compiler: faults of disk and clock are a library that is preloaded")
    began = time.monotonic()
    plan = planned(options.seed, options.share, options.only)
    with tempfile.TemporaryDirectory(prefix="swarmd-chaos-") as folder:
        done, failed = run(options.keep or Path(folder), plan, options.seed, with_vllm=not options.only)
    print(table(done))
    load = " ".join(f"{value:.0f}" for value in os.getloadavg())
    kinds = len({one.kind for one in done})
    print(
        f"\n{len(done)} faults of {kinds} kinds in {(time.monotonic() - began) / 60:.1f} minutes; load {load}"
    )
    for line in failed:
        print(f"! {line}")
    print("all invariants hold" if not failed else f"{len(failed)} violations")
    sys.exit(1 if failed else 0)


def planned(seed: int, share: float, only: str) -> list[list[str]]:
    """For each node the kinds of its faults, in order."""
    rng = random.Random(seed)
    plans: list[list[str]] = [[] for _ in range(NUM_NODES)]
    all_kinds = [kind for kind, (num, _) in KINDS.items() for _ in range(max(1, round(num * share)))]
    chosen = [kind for kind in all_kinds if only in kind]
    rng.shuffle(chosen)
    for kind in chosen:
        plans[SPLIT if kind == OF_SPLIT else min(range(NUM_NODES), key=lambda k: len(plans[k]))].append(kind)
    return plans


def run(root: Path, plans: list[list[str]], seed: int, *, with_vllm: bool) -> tuple[list[Done], list[str]]:
    """What became of each fault, and what is wrong at the end."""
    if with_vllm and find_spec("vllm"):
        plans = [*plans, VLLMS]
    arguments_of = {
        SPLIT: ("--placement", "split"),
        VLLM: ("--set", "policy.engine=vllm"),
    }
    arguments = (*FAST, "--set", "trust.canary=off")
    swarm = LocalSwarm(root, len(plans), 20 + seed, arguments=arguments, arguments_of=arguments_of)
    done: list[Done] = []
    with swarm:
        shims = [Shim(root / "shim", node.data_dir.root) for node in swarm.nodes]
        swarm.environment_of = {number: shim.environment for number, shim in enumerate(shims)}
        targets = [Target(swarm, k, shim, random.Random(f"{seed} {k}")) for k, shim in enumerate(shims)]
        threads = [
            threading.Thread(target=_suffer, args=(target, plan, done))
            for target, plan in zip(targets, plans, strict=True)
        ]
        for group in (range(min(NUM_NODES, len(plans))), range(NUM_NODES, len(plans))):
            for number in group:
                targets[number].start()
                threads[number].start()
            for number in group:
                threads[number].join()
        swarm.stop(evaluate=False)
    names = {node.identity.peer_id: node.name for node in swarm.nodes}
    failed = [f"{one.node}, {one.kind}: {wrong}" for one in done for wrong in one.wrong]
    for target in targets:
        failed += [f"{target.node.name}: {wrong}" for wrong in _at_the_end(target, names)]
    return done, failed


def _suffer(target: Target, plan: list[str], done: list[Done]) -> None:
    """One fault after the other, each after some rounds; the first round after it ends its time."""
    counter = 0
    for number, kind in enumerate(plan):
        target.wrong.clear()
        lost, seconds = target.num_lost(), float("nan")
        try:
            target.rounds_more(2)
            time.sleep(target.rng.uniform(0, 1.5))
            began_s = KINDS[kind.removeprefix(OF_VLLM)][1](target)
            target.rounds_more()
            seconds = time.monotonic() - began_s
        except (NotBack, OSError, AssertionError) as error:
            target.wrong.append(str(error))
            if not target.node.running:
                target.start()
        lost = target.num_lost() - lost
        counter, wrong = invariants.counters(target, counter)
        wrong = [*target.wrong, *wrong, *invariants.identity(target)]
        done.append(Done(kind, target.node.name, lost, seconds, tuple(wrong)))
        mark = "; ".join(wrong) or f"{seconds:.1f} s"
        print(f"{target.node.name} {number + 1:>3}/{len(plan)} {kind}: {mark}", flush=True)


def _at_the_end(target: Target, names: dict[str, str]) -> list[str]:
    code = target.node.process.returncode if target.node.process else None
    wrong = [] if code == 0 else [f"the last stop ended with {code}: {target.node.output()[-500:]}"]
    for check in (invariants.rounds, invariants.checkpoints, invariants.databases, invariants.leftovers):
        wrong += check(target)
    return wrong + invariants.duplicates(target, names)


def table(done: list[Done]) -> str:
    """Kind by kind: how often, rounds lost and seconds to the next round, median and most."""
    lines = [f"\n{'fault':<36}{'times':>6}{'rounds lost':>14}{'s to a round':>16}{'goal':>6}{'wrong':>7}"]
    for kind in dict.fromkeys([*KINDS, *(one.kind for one in done)]):
        found = [one for one in done if one.kind == kind]
        if not found:
            continue
        seconds = sorted(one.seconds for one in found if one.seconds == one.seconds)
        took = f"{median(seconds):.1f} / {seconds[-1]:.1f}" if seconds else "-"
        lost = f"{median(one.num_lost for one in found):.0f} / {max(one.num_lost for one in found)}"
        goal = f"{GOALS_S[kind]:.0f}" if kind in GOALS_S else ""
        num_wrong = sum(bool(one.wrong) for one in found)
        lines.append(f"{kind:<36}{len(found):>6}{lost:>14}{took:>16}{goal:>6}{num_wrong or '':>7}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
