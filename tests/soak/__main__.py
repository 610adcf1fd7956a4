"""`make soak`: nodes that stay for hours while newcomers come and go; then slopes with a verdict. Ctrl-C ends it with its report.

Samples are appended to DIR/samples.jsonl as they are taken, so `python -m tests.soak --report DIR` judges a run that was cut off.
Exits 1 when a measure of a node that stayed rises by more than its noise without a bound, or a process of it was replaced.
"""

import argparse
import json
import os
import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path

from swarmd.experiment.swarms.local_swarm import LocalNode, LocalSwarm, free_port
from swarmd.files.datadir import DataDir
from swarmd.files.owned import make_own
from swarmd.node.own import make_identity
from swarmd.protocol.signing import Identity
from tests.e2e.watch import FAST, rounds
from tests.soak.report import rows_of, table
from tests.soak.sample import Sample, look
from tests.soak.slopes import Verdict

SAMPLE_S = 10.0
NEWCOMER = 3
# The daemon's memory follows the rollouts that its buffer holds. With this bound the buffer is full after minutes, not after hours,
# and what rises later rises for another reason.
FULL_SOON = ("--set", "experience.rollouts_max=3000")


def main() -> None:
    """Run, or only report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=4.0)
    parser.add_argument("--churn-minutes", type=float, default=4.0, help="how long a newcomer stays")
    parser.add_argument("--report", type=Path, metavar="DIR", help="judge the samples of an earlier run")
    parser.add_argument("directory", type=Path, nargs="?")
    options = parser.parse_args()
    directory = options.report or options.directory or Path("runs") / time.strftime("soak-%Y%m%d-%H%M%S")
    if options.report is None:
        directory.mkdir(parents=True, exist_ok=True)
        print(
            f"four nodes for {options.hours:g} h, one of them always new; samples in {directory}", flush=True
        )
        soak(directory.absolute(), options.hours * 3600, options.churn_minutes * 60)
    sys.exit(report(directory))


def soak(directory: Path, duration_s: float, churn_s: float) -> None:
    """Keep the swarm running and sample the nodes that stay."""
    with (
        (directory / "samples.jsonl").open("a") as file,
        LocalSwarm(directory / "nodes", 4, arguments=(*FAST, *FULL_SOON)) as swarm,
    ):
        swarm.start(0, 1, 2)
        staying = swarm.nodes[:NEWCOMER]
        while not all(rounds(node) >= 2 for node in staying):
            _require_running(staying)
            time.sleep(0.5)
        lag: dict[str, tuple[float, float]] = {}
        began, came, num_newcomers = time.monotonic(), float("-inf"), 0
        try:
            while (now := time.monotonic()) < began + duration_s:
                if now - came >= churn_s:
                    _replace(swarm, num_newcomers)
                    num_newcomers, came = num_newcomers + 1, now
                for node in staying:
                    if sample := look(node, time.monotonic() - began, lag):
                        file.write(json.dumps(asdict(sample)) + "\n")
                file.flush()
                _require_running(staying)
                time.sleep(max(0.0, now + SAMPLE_S - time.monotonic()))
        except KeyboardInterrupt:
            print("\nending the nodes …", flush=True)
        print(f"{num_newcomers} newcomers, every other one killed", flush=True)


def report(directory: Path) -> int:
    """Print the table; the exit code."""
    samples = [Sample(**json.loads(line)) for line in (directory / "samples.jsonl").read_text().splitlines()]
    rows = rows_of(samples)
    if all(row.judged.verdict is Verdict.SHORT for row in rows):
        print(f"{len(samples)} samples are too few to judge")
        return 1
    failed = [row for row in rows if row.fails or row.replaced]
    by_node = {sample.node: sample for sample in samples}  # the last of each
    print(f"\n{max(sample.at_s for sample in samples) / 60:.1f} minutes, a sample each {SAMPLE_S:.0f} s")
    for sample in by_node.values():
        codes = sorted({code for other in samples if other.node == sample.node for code in other.health})
        print(f"{sample.node}: round {sample.round}; health was {', '.join(codes) or 'good all the while'}")
    print(f"\nof each measure the node in which it rose most, of {len(by_node)}\n\n{table(rows)}\n")
    for row in failed:
        print(f"! {row.node}: {row.name} {row.judged.verdict}{', replaced' if row.replaced else ''}")
    print("nothing rises by more than its noise" if not failed else f"{len(failed)} of {len(rows)} not level")
    return 1 if failed else 0


def _replace(swarm: LocalSwarm, number: int) -> None:
    """Let the newcomer go, by turns in order and by SIGKILL, and have another with its own identity."""
    old = swarm.nodes[NEWCOMER]
    if old.process is not None:
        if number % 2 and old.ask("/v1/stop?evaluate=0", method="POST") is not None:
            _end_within(old, 60.0)
        old.process.kill()
        old.process.wait()
        shutil.rmtree(old.data_dir.root, ignore_errors=True)
    directory = swarm.root / f"newcomer-{number}"
    make_own(directory)
    seed = os.urandom(32)
    make_identity(DataDir(directory), seed)
    swarm.nodes[NEWCOMER] = LocalNode(
        directory.name, DataDir(directory), Identity.from_seed(seed), free_port()
    )
    swarm.start(NEWCOMER)


def _end_within(node: LocalNode, patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while node.running and time.monotonic() < deadline:
        time.sleep(0.2)


def _require_running(nodes: list[LocalNode]) -> None:
    for node in nodes:
        if not node.running:
            sys.exit(f"{node.name} ended:\n{node.output()[-3000:]}")


if __name__ == "__main__":
    main()
