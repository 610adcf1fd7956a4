"""`make attack`: hostile peers against a swarm of real nodes; a row for each attack, and what has to hold. Exits 1 otherwise."""

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.attack.bout import run_bout
from tests.attack.checks import Check
from tests.attack.deeds import DEEDS, TOGETHER
from tests.attack.falls import falls_table, run_falls
from tests.attack.reward import as_plain, pair_checks, pairs_table, run_pairs
from tests.attack.rows import table
from tests.attack.sybils import ROUNDS as SYBIL_ROUNDS
from tests.attack.sybils import run as run_sybils
from tests.attack.trial import NUM_HONEST

FALLS = "falls"
FALLS_ROUNDS = 600
# Where the tiny policy's curve is nearly flat.
ROUNDS = 240


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help="this attack; may be repeated: " + ", ".join([*DEEDS, TOGETHER, FALLS]),
    )
    parser.add_argument("--seconds", type=float, default=15.0, help="of each window [15]")
    parser.add_argument("--quick", action="store_true", help="windows of 6 s, one seed of few rounds")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the identities of the swarm that is attacked bit by bit"
    )
    parser.add_argument(
        "--seeds",
        default="0,1,2",
        help="of the swarms whose held-out reward is compared; empty: none [0,1,2]",
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of each node in those [{ROUNDS}]")
    parser.add_argument("--no-bout", action="store_true", help="only the comparison of rewards")
    parser.add_argument(
        "--out", type=Path, default=None, metavar="DIR", help="where everything is left [runs/attack-TIME]"
    )
    options = parser.parse_args()
    names = options.only or [*DEEDS, TOGETHER, FALLS]
    if unknown := [name for name in names if name not in DEEDS and name not in (TOGETHER, FALLS)]:
        parser.error(f"no attack {', '.join(unknown)}")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    out = (options.out or Path("runs") / time.strftime("attack-%Y%m%d-%H%M%S")).absolute()
    seeds = [int(seed) for seed in options.seeds.split(",") if seed.strip()]
    if options.only and options.seeds == parser.get_default("seeds"):
        seeds = []
    plan = Plan(
        names=[] if options.no_bout else [name for name in names if name != FALLS],
        seconds=6.0 if options.quick else options.seconds,
        seed=options.seed,
        seeds=seeds[:1] if options.quick else seeds,
        rounds=min(options.rounds, 60) if options.quick else options.rounds,
        sybils=not options.only and not options.no_bout,
        falls=FALLS in names and not options.no_bout and not options.quick,
    )
    if not plan.names and not plan.seeds and not plan.falls:
        parser.error("nothing is left to do: --no-bout needs --seeds")
    try:
        sys.exit(run(out, plan))
    except KeyboardInterrupt:
        print("\nstopped; no process is left behind", flush=True)
        sys.exit(130)


@dataclass(frozen=True)
class Plan:
    """What is done: windows of `seconds` for each name on the swarm of `seed`; then, for each of `seeds`, so many rounds twice.

    `sybils`: between them the share that many names get, in virtual rounds. `falls`: last, what falls cost a node in such rounds.
    """

    names: list[str]
    seconds: float
    seed: int
    seeds: list[int]
    rounds: int
    sybils: bool = False
    falls: bool = False


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def run(out: Path, plan: Plan) -> int:
    """Everything; returns the exit code."""
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:5.0f} s  {line}", flush=True)

    found: list[Check] = []
    report: dict[str, Any] = {}
    out.mkdir(parents=True)
    if plan.names:
        found += fight(out, plan, report, say)
        _write(out, report, found)
    if plan.sybils:
        say("many names, in virtual rounds ...")
        found += run_sybils(plan.seed, SYBIL_ROUNDS, tenth_only=True)
        _write(out, report, found)
    if plan.seeds:
        found += learn(out, plan, report, say)
        _write(out, report, found)
    if plan.falls:
        found += fall(report, say)
        _write(out, report, found)
    for check in found:
        print(check)
    print(f"\nreport   {out / 'report.json'}   {time.monotonic() - began:.0f} s")
    return 0 if all(check.passed for check in found) else 1


def fight(out: Path, plan: Plan, report: dict[str, Any], say: Callable[[str], None]) -> list[Check]:
    """The bout, its table and its rows in the report; one that broke off is a failed check."""
    try:
        bout = run_bout(out / "bout", plan.names, plan.seconds, plan.seed, say)
    except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
        return [Check("the bout came to its end", False, str(error))]
    print("\n" + table(bout.rows) + "\n", flush=True)
    report["rows"] = [asdict(row) for row in bout.rows]
    return bout.checks


def learn(out: Path, plan: Plan, report: dict[str, Any], say: Callable[[str], None]) -> list[Check]:
    """The comparison of rewards, its table and its pairs in the report."""
    pairs, failed = run_pairs(out / "reward", plan.seeds, plan.rounds, say)
    if pairs:
        print(
            f"\nheld-out reward of {NUM_HONEST} nodes, rounds {plan.rounds // 2 + 1} to {plan.rounds}\n{pairs_table(pairs)}\n",
            flush=True,
        )
    report["pairs"] = [as_plain(pair) for pair in pairs]
    return failed + pair_checks(pairs)


def fall(report: dict[str, Any], say: Callable[[str], None]) -> list[Check]:
    """A node whose policy is made to fall again and again, its table and its outcomes in the report; one seed, in virtual time."""
    outcomes, checks = run_falls(FALLS_ROUNDS, [0], say)
    print("\n" + falls_table(outcomes, FALLS_ROUNDS) + "\n", flush=True)
    report["falls"] = {name: [asdict(one) for one in runs] for name, runs in outcomes.items()}
    return checks


def _write(out: Path, report: dict[str, Any], found: list[Check]) -> None:
    report["checks"] = [asdict(check) for check in found]
    (out / "report.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
