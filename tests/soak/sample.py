"""One look at a running node from outside: each of its processes, its disk, its metrics."""

import os
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from swarmd.experiment.swarms.local_swarm import LocalNode
from tests.e2e.watch import descendants, metrics_text, status

# Of the data directory: what is told apart. The daemon's output is the supervisor's to bound.
PIECES = {"buffer.sqlite": "buffer", "checkpoints": "checkpoints", "rounds.jsonl": "history", "logs": "logs"}
NOT_OURS = "output.log"


@dataclass(frozen=True)
class Sample:
    """`values` by name: `daemon rss MB`, `disk buffer MB`, `series`, …; `pids` by process, which tell whether one was replaced."""

    at_s: float
    node: str
    pids: dict[str, int]
    values: dict[str, float]
    round: int
    health: list[str]


def look(node: LocalNode, at_s: float, lag: dict[str, tuple[float, float]]) -> Sample | None:
    """The node now, or None while it does not answer; `lag` keeps each node's sums of the loop's lag between two looks."""
    told = status(node)
    if not told or node.process is None:
        return None
    pids = {"daemon": node.process.pid}
    pids |= {name: worker["pid"] for name, worker in told["workers"].items() if worker["pid"]}
    pids |= _others(node.process.pid, set(pids.values()))
    values = {f"disk {piece} MB": size / 1e6 for piece, size in _disk(node.data_dir.root).items()}
    for name, pid in pids.items():
        values |= _process(name, pid)
    try:
        values |= _metrics(node, lag)
    except (OSError, ValueError):
        return None
    return Sample(at_s, node.name, pids, values, told["round"], [found["code"] for found in told["health"]])


def _others(daemon: int, known: set[int]) -> dict[str, int]:
    """The zygote: the one process below the scorer that is there for good. What it forks lives for one answer."""
    for pid in descendants(daemon) - known:
        try:
            if (
                b"swarmd.questions.zygote" in Path(f"/proc/{pid}/cmdline").read_bytes()
                and _parent(pid) in known
            ):
                return {"zygote": pid}
        except OSError:
            continue
    return {}


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def _process(name: str, pid: int) -> dict[str, float]:
    try:
        fields = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
        )
        return {
            f"{name} rss MB": int(fields["VmRSS"].split()[0]) * 1024 / 1e6,
            f"{name} threads": float(fields["Threads"]),
            f"{name} descriptors": float(len(os.listdir(f"/proc/{pid}/fd"))),
        }
    except (OSError, KeyError):  # it has just ended
        return {}


def _disk(root: Path) -> dict[str, int]:
    """Bytes on disk by piece."""
    sizes = dict.fromkeys([*PIECES.values(), "others"], 0)
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            top = path.relative_to(root).parts[0]
            piece = next((piece for start, piece in PIECES.items() if top.startswith(start)), "others")
            try:
                sizes[piece] += 0 if top == NOT_OURS else path.lstat().st_blocks * 512
            except OSError:
                continue
    return sizes


def _metrics(node: LocalNode, lag: dict[str, tuple[float, float]]) -> dict[str, float]:
    families = text_string_to_metric_families(metrics_text(node))
    samples = [sample for family in families for sample in family.samples]
    values = {"series": float(len(samples))}
    found = {
        sample.name: sample.value for sample in samples if sample.name.startswith("swarmd_loop_lag_seconds")
    }
    now = found.get("swarmd_loop_lag_seconds_sum", 0.0), found.get("swarmd_loop_lag_seconds_count", 0.0)
    before = lag.get(node.name, (0.0, 0.0))
    lag[node.name] = now
    if now[1] > before[1]:
        values["loop lag ms"] = (now[0] - before[0]) / (now[1] - before[1]) * 1e3
    for sample in samples:
        if sample.name == "swarmd_tasks":
            values[f"{sample.labels['process']} tasks"] = sample.value
    return values
