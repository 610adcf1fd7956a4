"""`make demo`: four real nodes on this machine learn from each other, and the run is reported honestly.

Exits 0 when every node's reward rose and everybody used everybody's rollouts, 1 when not, 130 on Ctrl-C. Leaves no process behind.
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from swarmd.experiment.demo_report import (
    NodeResult,
    node_result,
    plot_rewards,
    shortcomings,
    table,
    write_report,
)
from swarmd.experiment.swarms.local_swarm import LocalNode, LocalSwarm

# Rounds before the run may end: fewer, and a fifth of them is too short to compare.
ROUNDS_MIN = 100
# The rise at which the run ends; the bar is 5, and what follows the decision is noise around it.
RATIO_ENOUGH = 10.0
SETTINGS = (
    "--model", "tiny", "--device", "cpu",
    "--set", "policy.threads=1",
    "--set", "evaluate.num_questions=128", "--set", "evaluate.completions=4", "--set", "evaluate.every_rounds=0",
)  # fmt: skip


def main() -> None:
    """Parse the few options and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument(
        "--seed", type=int, default=0, help="chooses the nodes' identities, and so all their questions"
    )
    parser.add_argument(
        "--minutes", type=float, default=5.0, help="the longest it may take before the closing evaluation"
    )
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    options = parser.parse_args()
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # said outright: a job in the background inherits an ignored SIGINT
        signal.signal(number, _interrupt)
    root = options.runs / time.strftime("%Y%m%d-%H%M%S")
    try:
        sys.exit(run(root.absolute(), options.nodes, options.seed, options.minutes * 60))
    except KeyboardInterrupt:
        print("\nstopped; no process is left behind", flush=True)
        sys.exit(130)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def run(root: Path, num_nodes: int, seed: int, seconds_max: float) -> int:
    """The demo: start, watch, stop, report. Returns the exit code."""
    began = time.monotonic()
    print(
        f"{num_nodes} nodes, seed {seed}, in {root}: starting (imports take the first half minute)",
        flush=True,
    )
    with LocalSwarm(root, num_nodes, seed, SETTINGS) as swarm:
        swarm.start()
        screen = Screen(sys.stdout.isatty())
        while time.monotonic() - began < seconds_max:
            time.sleep(1)
            for node in swarm.nodes:
                if not node.running:
                    print(
                        f"\n{node.name} ended too early; its last words:\n{node.output()[-2000:]}", flush=True
                    )
                    return 1
            views = [look(node) for node in swarm.nodes]
            screen.show(live_table(views, time.monotonic() - began))
            results = [view["result"] for view in views]
            if all(done(result, results) for result in results):
                break
        print("\nclosing evaluation on held-out questions …", flush=True)
        swarm.stop(evaluate=True)
        results = [final_result(node) for node in swarm.nodes]
    write_report(root / "report.json", results, seed=seed, seconds=round(time.monotonic() - began, 1))
    plot_rewards(root / "reward.png", results)
    print("\n" + table(results))
    print(f"\nreport   {root / 'report.json'}\npicture  {root / 'reward.png'}")
    missing = shortcomings(results)
    print(
        "\n".join(["", "NOT shown:", *missing])
        if missing
        else "\nEvery node's reward rose, and every node used rollouts of every other.",
        flush=True,
    )
    return 1 if missing else 0


def done(result: NodeResult, results: list[NodeResult]) -> bool:
    """Whether this node has shown what there is to see."""
    return (
        result.rounds >= ROUNDS_MIN
        and result.ratio >= RATIO_ENOUGH
        and len(result.used_by_author) >= len(results) - 1
    )


def look(node: LocalNode) -> dict[str, Any]:
    """What one node says of itself now; zeros while it is starting."""
    status = node.ask("/v1/status") or {}
    rounds = node.ask("/v1/rounds?last=1000") or {"rounds": [], "evaluations": []}
    rejected = status.get("network", {}).get("stats", {}).get("rejected", 0)
    return {
        "name": node.name,
        "status": status,
        "result": node_result(
            node.name, node.identity.peer_id, rounds["rounds"], rounds["evaluations"], rejected
        ),
    }


def final_result(node: LocalNode) -> NodeResult:
    """The figures after the node has stopped, from the files that it leaves."""
    import json

    def lines(name: str) -> list[dict[str, Any]]:
        path = node.data_dir.root / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    rounds = lines("rounds.jsonl")
    rejected = rounds[-1].get("rejected", 0) if rounds else 0
    return node_result(node.name, node.identity.peer_id, rounds, lines("evaluations.jsonl"), rejected)


def live_table(views: list[dict[str, Any]], elapsed_s: float) -> list[str]:
    """The live table: one line a node."""
    lines = [f"{elapsed_s:5.0f} s   node     round   reward (last fifth)      shared  received  used  peers"]
    for view in views:
        status, result = view["status"], view["result"]
        bar = "█" * round(result.reward_last_fifth * 20)
        lines.append(
            f"          {view['name']:<8} {result.rounds:>5}   {result.reward_last_fifth:.3f} {bar:<20}"
            f" {result.shared:>6}  {result.received:>8}  {sum(result.used_by_author.values()):>4}"
            f"  {status.get('network', {}).get('num_peers', 0):>5}" + ("" if status else "   starting")
        )
    return lines


class Screen:
    """Redraws the table in place on a terminal; elsewhere prints it every ten seconds."""

    def __init__(self, terminal: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._terminal, self._clock = terminal, clock
        self._num_lines = 0
        self._next = 0.0

    def show(self, lines: list[str]) -> None:
        """Show the newest table."""
        if self._terminal:
            up = f"\x1b[{self._num_lines}F" if self._num_lines else ""
            print(up + "\n".join(f"\x1b[2K{line}" for line in lines), flush=True)
            self._num_lines = len(lines)
        elif self._clock() >= self._next:
            self._next = self._clock() + 10
            print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
