"""Gossip under load, ours against stock py-libp2p: `make bench-gossip`, or `python -m tests.bench.bench_gossip --seconds 120`.

Four processes in a full mesh on loopback, each publishing 8 valid signed batches of 32 KiB a second. Ours runs the real
`NetworkService` with every rule; stock accepts everything. Exit code 1 when ours delivered less than everything.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Figures:
    """Of one run, over all nodes. `cpu_ms` is process time per delivery, sealing and sending included."""

    num_expected: int
    num_delivered: int
    num_twice: int
    p50_ms: float
    p99_ms: float
    cpu_ms: float
    size_bytes: float

    @property
    def delivered(self) -> float:
        return self.num_delivered / self.num_expected


class Node:
    """A child process of the benchmark."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.gossip_node"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def tell(self, **what: Any) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(what) + "\n")
        self._child.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"a node ended with code {self._child.wait()}")
        return dict(json.loads(line))

    def end(self) -> None:
        self._child.kill()
        self._child.wait()


def run(kind: str, args: argparse.Namespace) -> Figures:
    """One run of one stack."""
    nodes = [Node() for _ in range(args.nodes)]
    try:
        return _drive(kind, nodes, args)
    finally:
        for node in nodes:
            node.end()


def _drive(kind: str, nodes: list[Node], args: argparse.Namespace) -> Figures:
    addresses: list[str] = []
    for number, node in enumerate(nodes, start=1):
        node.tell(
            number=number,
            kind=kind,
            manifest=args.manifest,
            message_bytes=args.bytes,
            num_nodes=len(nodes),
            bootstrap=addresses[:1],
        )
        addresses.append(node.hear()["address"])
    for index, node in enumerate(nodes):
        node.tell(peers=addresses[:index])
    for node in nodes:
        node.hear()
    begin_ns = time.time_ns() + 2_000_000_000
    for node in nodes:
        node.tell(begin_ns=begin_ns, seconds=args.seconds, per_s=args.per_s, num_nodes=len(nodes))
    reports = [node.hear() for node in nodes]
    for node in nodes:
        node.tell(end=True)
    for number, node in enumerate(nodes, start=1):
        _show_troubles(number, node.hear()["stats"])
    return _figures(reports, args.bytes)


def _show_troubles(number: int, stats: dict[str, Any]) -> None:
    quiet = {"accept", "duplicate", "inbound_accepted"}
    troubles = {
        name: count
        for group in ("gossip", "host")
        for name, count in stats.get(group, {}).items()
        if count and name not in quiet
    }
    if stats:
        print(
            f"  node {number}: heartbeat at most {stats['heartbeat_lag_s']:.2f} s late; troubles: {troubles or 'none'}"
        )


def _figures(reports: list[dict[str, Any]], size_bytes: int) -> Figures:
    sent: dict[str, int] = {}
    for report in reports:
        sent.update(report["sent"])
    arrivals = [times for report in reports for digest, times in report["received"].items() if digest in sent]
    latencies_ms = sorted(
        (times[0] - sent[digest]) / 1e6
        for report in reports
        for digest, times in report["received"].items()
        if digest in sent
    )
    cuts = statistics.quantiles(latencies_ms, n=100) if len(latencies_ms) > 1 else [0.0] * 99
    return Figures(
        num_expected=len(sent) * (len(reports) - 1),
        num_delivered=len(latencies_ms),
        num_twice=sum(len(times) - 1 for times in arrivals),
        p50_ms=cuts[49],
        p99_ms=cuts[98],
        cpu_ms=1000 * sum(report["cpu_s"] for report in reports) / max(len(latencies_ms), 1),
        size_bytes=size_bytes,
    )


NAMES = ("delivered, %", "latency p50, ms", "latency p99, ms", "CPU per delivery, ms", "delivered twice")


def _row(figures: Figures) -> list[float]:
    return [100 * figures.delivered, figures.p50_ms, figures.p99_ms, figures.cpu_ms, float(figures.num_twice)]


def table(ours: Figures, stock: Figures | None) -> str:
    """The result for people."""
    rows = list(zip(NAMES, _row(ours), _row(stock) if stock else [None] * len(NAMES), strict=True))
    lines = [f"{'':22} {'swarmd':>10} {'stock':>10} {'stock/ours':>11}"]
    for name, mine, other in rows:
        ratio = f"{other / mine:11.2f}" if other is not None and mine else f"{'':11}"
        lines.append(f"{name:22} {mine:10.2f} {'' if other is None else f'{other:.2f}':>10} {ratio}")
    lines.append(f"{ours.num_delivered} of {ours.num_expected} deliveries")
    return "\n".join(lines)


def main() -> int:
    """Run both stacks, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--per-s", type=float, default=8.0, help="messages a second of each node")
    parser.add_argument("--bytes", type=int, default=32 * 1024)
    parser.add_argument("--manifest", default="reasoning")
    parser.add_argument("--only", choices=["hardened"], help="leave the comparison out")
    args = parser.parse_args()
    load = f"{args.nodes} processes, each {args.per_s:g} messages of {args.bytes} bytes a second for {args.seconds:g} s"
    print(f"{load}; {os.cpu_count()} CPUs, load average {os.getloadavg()[0]:.1f}")
    ours = run("hardened", args)
    print(table(ours, None if args.only else run("stock", args)))
    return 0 if ours.num_delivered == ours.num_expected else 1


if __name__ == "__main__":
    sys.exit(main())
