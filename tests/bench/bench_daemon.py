"""The daemon's loop while updates keep every core busy: lag (p99 over the run, from its own histogram), CPU share, heartbeats.

Two real nodes that share rollouts, placed `split`, with as many torch threads as there are cores: generation and updates always
run. `make bench-daemon` prints the figures; absolute times mean little on a shared machine, so the lag of an idle trio loop in the
same minute stands beside. Exits 1 when a gossip heartbeat was missed.
"""

import argparse
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import trio
from prometheus_client.parser import text_string_to_metric_families

from swarmd.experiment.swarms.local_swarm import LocalNode, LocalSwarm
from tests.e2e.watch import metrics_text

SETTINGS = (
    "--model", "tiny", "--device", "cpu", "--placement", "split", "--completions", "32", "--mix", "16/16",
    "--set", "evaluate.num_questions=0", "--set", "experience.uses_max=100",
)  # fmt: skip
# Gossip's heartbeat is 1 s; one that comes a whole interval late was missed.
HEARTBEAT_S = 1.0


def main() -> None:
    """Run, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    print(f"starting two nodes, then measuring for {options.seconds:.0f} s …", flush=True)
    with tempfile.TemporaryDirectory() as root, LocalSwarm(Path(root), 2, arguments=SETTINGS) as swarm:
        swarm.start()
        while not all((node.ask("/v1/status") or {}).get("round", 0) >= 2 for node in swarm.nodes):
            if not all(node.running for node in swarm.nodes):
                sys.exit(f"a node ended:\n{swarm.nodes[0].output()}\n{swarm.nodes[1].output()}")
            time.sleep(0.5)
        idle: list[float] = []
        reference = threading.Thread(target=lambda: idle.extend(trio.run(idle_lags, options.seconds)))
        before = {node.name: (lag_counts(node), cpu_seconds(node), rounds(node)) for node in swarm.nodes}
        began = time.monotonic()
        reference.start()
        reference.join()
        seconds = time.monotonic() - began
        print(
            f"\n{'':<10}{'lag p50':>10}{'lag p99':>10}{'CPU share':>11}{'rounds':>8}{'worst heartbeat lag':>21}"
        )
        missed = False
        for node in swarm.nodes:
            lags, cpu, done = before[node.name]
            grown = {bound: count - lags.get(bound, 0) for bound, count in lag_counts(node).items()}
            stats = (node.ask("/v1/status") or {})["network"]["stats"]
            missed |= stats["heartbeat_lag_s"] > HEARTBEAT_S
            share = (cpu_seconds(node) - cpu) / seconds
            print(
                f"{node.name:<10}{quantile(grown, 0.5):>9}s{quantile(grown, 0.99):>9}s{share:>10.1%}"
                f"{rounds(node) - done:>8}{stats['heartbeat_lag_s']:>20.3f}s"
            )
        idle.sort()
        print(
            f"{'idle loop':<10}{idle[len(idle) // 2]:>9.4f}s{idle[int(len(idle) * 0.99)]:>9.4f}s   (same minute, same machine)"
        )
        print("gossip heartbeats were missed" if missed else "no gossip heartbeat was missed")
    sys.exit(1 if missed else 0)


async def idle_lags(seconds: float) -> list[float]:
    """What a loop with nothing to do measures of the same 1 s timer."""
    lags, end = [], trio.current_time() + seconds
    while trio.current_time() < end:
        before = trio.current_time()
        await trio.sleep(HEARTBEAT_S)
        lags.append(trio.current_time() - before - HEARTBEAT_S)
    return lags


def lag_counts(node: LocalNode) -> dict[float, float]:
    """The cumulative buckets of `swarmd_loop_lag_seconds`."""
    text = metrics_text(node)
    family = next(f for f in text_string_to_metric_families(text) if f.name == "swarmd_loop_lag_seconds")
    return {float(s.labels["le"]): s.value for s in family.samples if s.name.endswith("_bucket")}


def quantile(cumulative: dict[float, float], q: float) -> str:
    """The bucket's upper bound below which the share `q` of the observations lies."""
    total = cumulative[float("inf")]
    bound = next(bound for bound, count in sorted(cumulative.items()) if count >= q * total)
    return f"<={bound:g}"


def cpu_seconds(node: LocalNode) -> float:
    """CPU time of the daemon alone, without its children, so far."""
    assert node.process is not None
    fields = Path(f"/proc/{node.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rounds(node: LocalNode) -> int:
    """Rounds completed."""
    return int((node.ask("/v1/status") or {}).get("round", 0))


if __name__ == "__main__":
    main()
