"""Fifty starts and stops of a real node whose disk is full, fails or is read-only: `python -m tests.chaos.stops`.

The fault comes before the start, while the node starts, or while it makes rounds, and stays until the node has ended. Each run
must end with the exit code of its fault and one message, or, where no round was lost, with 0; never with a traceback.
"""

import argparse
import errno
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from swarmd.errors import DiskFull, StateError
from swarmd.experiment.swarms.local_swarm import LocalNode, LocalSwarm
from tests.chaos.shim import Shim
from tests.e2e.history import newest_checkpoint
from tests.e2e.watch import FAST, rounds, until

FAULTS = {
    "full": (errno.ENOSPC, DiskFull.exit_code),
    "failing": (errno.EIO, StateError.exit_code),
    "read-only": (errno.EROFS, StateError.exit_code),
}
# When the fault begins: with the directory that a node left behind, or with none.
MOMENTS = ("before a start", "before a first start", "while it starts", "while it makes rounds")
STARTED = "Running."
# What a node says while it starts: the fault comes within two seconds after one of these.
STEPS = ("swarmd ", "✓ identity", "✓ model", "✓ swarm", "✓ metrics", "… starting", "✓ scorer")
FAULT_S = 6.0
STOPPED = re.compile(r"^Stopped after round (\d+)", re.MULTILINE)
MESSAGE = re.compile(r"^swarmd: (.*)", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """How one start ended. `wrong` is empty where it ended as documented."""

    fault: str
    moment: str
    code: int
    message: str
    wrong: str


def main() -> None:
    """Do the runs, print a table of codes and messages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="swarmd-stops-") as folder:
        runs = _runs(Path(folder), options.runs, rng)
    counts = Counter((run.fault, run.moment, run.code, run.message) for run in runs)
    print(f"\n{'fault':<11}{'it begins':<23}{'exit':>5}{'times':>7}  message")
    for (fault, moment, code, message), num in sorted(counts.items()):
        print(f"{fault:<11}{moment:<23}{code:>5}{num:>7}  {message}")
    wrong = [run for run in runs if run.wrong]
    for run in wrong:
        print(f"! {run.fault}, {run.moment}: {run.wrong}")
    print(f"{len(runs) - len(wrong)} of {len(runs)} ended as documented")
    sys.exit(1 if wrong else 0)


def _runs(folder: Path, num: int, rng: random.Random) -> list[Run]:
    base = folder / "base"
    with LocalSwarm(base, 1, arguments=(*FAST, "--solo", "--rounds", "3")) as swarm:
        swarm.start()
        until(lambda: not swarm.nodes[0].running, "three rounds", swarm.nodes[0])
    runs = []
    for number in range(num):
        fault, moment = list(FAULTS)[number % 3], MOMENTS[number // 3 % len(MOMENTS)]
        root = folder / f"run-{number}"
        if moment != "before a first start":
            shutil.copytree(base, root, ignore=shutil.ignore_patterns("output.log", "control.sock"))
        runs.append(_one(root, fault, moment, rng))
        print(
            f"{number + 1:>3} {fault}, {moment}: {runs[-1].code} {runs[-1].message} {runs[-1].wrong}",
            flush=True,
        )
        shutil.rmtree(root)
    return runs


def _one(root: Path, fault: str, moment: str, rng: random.Random) -> Run:
    number, code = FAULTS[fault]
    with LocalSwarm(root, 1, arguments=(*FAST, "--solo")) as swarm:
        node = swarm.nodes[0]
        shim = Shim(root.parent / "shim", node.data_dir.root)
        swarm.environment_of = {0: shim.environment}
        if moment.startswith("before"):
            with shim.fault(fails_with=number):
                swarm.start()
                return _ended(node, fault, moment, code)
        before = newest_checkpoint(node)
        swarm.start()
        if moment == "while it starts":
            step = rng.choice(STEPS)
            until(lambda: step in node.output() or not node.running, step, node)
            time.sleep(rng.uniform(0.0, 2.0))
        else:
            until(lambda: rounds(node) > before + 2 or not node.running, "rounds", node)
            time.sleep(rng.uniform(0.0, 1.0))
        with shim.fault(fails_with=number):
            # No question can be asked while its number cannot be written: at most the rounds already generated are done.
            until(lambda: STARTED in node.output() or not node.running, "a start, or the end", node)
            time.sleep(rng.uniform(0.0, FAULT_S))
            if node.process is not None:
                node.process.terminate()
            return _ended(node, fault, moment, code)


def _ended(node: LocalNode, fault: str, moment: str, wanted: int) -> Run:
    assert node.process is not None
    until(lambda: not node.running, "the end", node)
    code, output = node.process.returncode, node.output()
    messages = MESSAGE.findall(output)
    stopped = STOPPED.search(output)
    wrong = []
    if "Traceback" in output:
        wrong.append("a traceback")
    if code == 0:
        if stopped is None or int(stopped[1]) != newest_checkpoint(node):
            wrong.append(
                f"exit 0, and the newest checkpoint is of round {newest_checkpoint(node)}: {output[-300:]}"
            )
        if messages:
            wrong.append(f"exit 0 with a message: {messages}")
    elif code != wanted:
        wrong.append(f"exit {code} instead of {wanted}: {output[-600:]}")
    elif len(messages) != 1:
        wrong.append(f"{len(messages)} messages: {messages}")
    message = (
        re.sub(r"/\S+", "DIR", messages[-1])
        if messages
        else (stopped[0].rstrip("0123456789 ") if stopped else "")
    )
    return Run(fault, moment, code, message, "; ".join(wrong))


if __name__ == "__main__":
    main()
