"""Gossip under load, ours against stock py-libp2p: `make bench-gossip`, or `python -m tests.bench.bench_gossip --seconds 120`.

First four processes in a full mesh on loopback, each publishing 8 valid signed batches of 32 KiB a second. Then 8, 16 and 32 hosts
with addresses of their own in one /24 (network namespaces, so root), with a few messages a second in all: what a delivery costs
when not everybody is in everybody's mesh. Ours runs the real `NetworkService` with every rule; stock accepts everything. With
`--before REVISION` the same load also runs on the `swarmd` of that revision. Exit code 1 when ours delivered less than everything.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.bench.lan import can_make, machines

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
    copies: float
    sent_bytes: int = 0

    @property
    def delivered(self) -> float:
        return self.num_delivered / self.num_expected


class Node:
    """A child process of the benchmark."""

    def __init__(self, inside: Sequence[str] = (), swarmd_from: Path = REPOSITORY) -> None:
        self._child = subprocess.Popen(
            [*inside, sys.executable, str(REPOSITORY / "tests" / "bench" / "gossip_node.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=swarmd_from,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(swarmd_from)},
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
    """One run of one stack, on loopback."""
    nodes = [Node() for _ in range(args.nodes)]
    try:
        return _drive(kind, nodes, ["127.0.0.1"] * len(nodes), args)
    finally:
        for node in nodes:
            node.end()


def run_on_lan(kind: str, args: argparse.Namespace, swarmd_from: Path) -> Figures:
    """One run of one stack, on `args.nodes` machines."""
    with machines(args.nodes) as lan:
        nodes = [Node(machine.inside, swarmd_from) for machine in lan]
        try:
            before = sum(machine.num_bytes_sent() for machine in lan)
            figures = _drive(kind, nodes, [machine.address for machine in lan], args)
            return replace(figures, sent_bytes=sum(machine.num_bytes_sent() for machine in lan) - before)
        finally:
            for node in nodes:
                node.end()


def _drive(kind: str, nodes: list[Node], hosts: list[str], args: argparse.Namespace) -> Figures:
    addresses: list[str] = []
    for number, (node, host) in enumerate(zip(nodes, hosts, strict=True), start=1):
        node.tell(
            number=number,
            kind=kind,
            listen=f"/ip4/{host}/tcp/0",
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
    quiet = {"accept", "duplicate", "inbound_accepted", "bytes_in", "bytes_out"}
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
        copies=sum(report["num_copies"] for report in reports) / max(len(latencies_ms), 1),
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


LAN_NAMES = (
    "copies a delivery",
    "CPU a delivery, ms",
    "bytes a delivered byte",
    "latency p50, ms",
    "p99, ms",
    "%",
)


def lan_table(by_kind: Mapping[str, Figures]) -> str:
    """A line a stack. Bytes are those that left all machines, joining included; CPU is that of all processes."""
    lines = [f"{'':10}" + "".join(f"{name:>24}" for name in LAN_NAMES)]
    for kind, found in by_kind.items():
        per_byte = found.sent_bytes / max(1, found.num_delivered * found.size_bytes)
        row = (found.copies, found.cpu_ms, per_byte, found.p50_ms, found.p99_ms, 100 * found.delivered)
        lines.append(f"{kind:10}" + "".join(f"{value:>24.2f}" for value in row))
    return "\n".join(lines)


@contextlib.contextmanager
def revision(name: str | None) -> Iterator[Path | None]:
    """The files of a revision, or None where none is named."""
    if name is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="swarmd-before-") as folder:
        archive = subprocess.run(
            ["git", "archive", name], cwd=REPOSITORY, check=True, capture_output=True
        ).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        yield Path(folder)


def on_lans(args: argparse.Namespace) -> bool:
    """Run all stacks on each number of machines; whether ours delivered everything."""
    complete = True
    with revision(args.before) as before:
        for num in args.lan:
            args.nodes, args.per_s, args.seconds = num, args.lan_per_s / num, args.lan_seconds
            print(
                f"\n{num} machines, {args.lan_per_s:g} messages of {args.bytes} bytes a second in all",
                flush=True,
            )
            found = {"swarmd": run_on_lan("hardened", args, REPOSITORY)}
            if before is not None:
                found["before"] = run_on_lan("hardened", args, before)
            if not args.only:
                found["stock"] = run_on_lan("stock", args, REPOSITORY)
            print(lan_table(found), flush=True)
            complete &= found["swarmd"].num_delivered == found["swarmd"].num_expected
    return complete


def main() -> int:
    """Run both stacks, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--per-s", type=float, default=8.0, help="messages a second of each node")
    parser.add_argument("--bytes", type=int, default=32 * 1024)
    parser.add_argument("--manifest", default="reasoning")
    parser.add_argument("--only", choices=["hardened"], help="leave the comparison out")
    parser.add_argument("--lan", type=lambda text: [int(num) for num in text.split(",")], default=[8, 16, 32])
    parser.add_argument("--lan-per-s", type=float, default=3.2, help="messages a second of all machines")
    parser.add_argument("--lan-seconds", type=float, default=40.0)
    parser.add_argument("--before", metavar="REVISION", help="compare with the swarmd of this revision too")
    parser.add_argument("--lan-only", action="store_true", help="leave loopback out")
    args = parser.parse_args()
    complete = True
    if not args.lan_only:
        load = f"{args.nodes} processes, each {args.per_s:g} messages of {args.bytes} bytes a second for {args.seconds:g} s"
        print(f"{load}; {os.cpu_count()} CPUs, load average {os.getloadavg()[0]:.1f}", flush=True)
        ours = run("hardened", args)
        print(table(ours, None if args.only else run("stock", args)), flush=True)
        complete = ours.num_delivered == ours.num_expected
    if can_make():
        complete &= on_lans(args)
    else:
        print("\nmachines with addresses of their own need root and iproute2: left out")
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
