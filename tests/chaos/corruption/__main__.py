"""`make corruption`: every damage of the table on a copy of a real node's directory, and what a real start makes of it.

Prints what a node did before damage was looked for beside what it does now; exits 1 where damage is not detected, not said, or
costs more than itself.
"""

import argparse
import itertools
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from swarmd.experiment.swarms.local_swarm import LocalNode, LocalSwarm
from swarmd.protocol.signing import Identity
from tests.chaos.corruption.outcome import Outcome, pattern, said, wrong
from tests.chaos.corruption.rows import ROWS, Row
from tests.chaos.invariants import next_counter
from tests.e2e.history import newest_checkpoint, told
from tests.e2e.watch import FAST, kill_daemon, rounds, status, until

ARGUMENTS = (*FAST, "--set", "trust.canary=off")
# The first node uses no rollout of others, so that there are some which have not been used up when damage comes.
UNUSED = ("--set", "experience.mix=4/0")
ROUNDS, AGAIN, ROUNDS_MAX = 8, 2, 60
BANNED = Identity.from_seed(bytes(range(32))).peer_id
AT_ONCE = 2
# Lines of what a node said that are shown.
WORDS = 2


def main() -> None:
    """Make the directory, damage its copies, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="rows that hold this text")
    options = parser.parse_args()
    control, *others = ROWS
    chosen = [row for row in others if options.only in row.name]
    with tempfile.TemporaryDirectory(prefix="swarmd-corruption-") as folder:
        root = Path(folder)
        base = make_base(root / "base")
        first = outcome_of(control, base, root / "row", ())
        patterns = {pattern(line) for line in first.said}

        def run(number: int, row: Row) -> Outcome:
            return outcome_of(row, base, root / f"row-{number}", patterns)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = [(control, first), *zip(chosen, pool.map(run, itertools.count(), chosen), strict=True)]
    failed = 0
    for row, outcome in found:
        mistakes = wrong(row, outcome) if row is not control or outcome.code else []
        failed += bool(mistakes)
        print(described(row, outcome, mistakes, silent=row is control), flush=True)
    print(f"\n{len(found) - failed} of {len(found)} as they should be")
    sys.exit(1 if failed else 0)


def make_base(root: Path) -> LocalNode:
    """A node with rounds, rollouts of another node, a peer and an operator's ban, that was killed: its logs hold what is newest."""
    with LocalSwarm(root, 2, arguments=(*ARGUMENTS, *UNUSED)) as swarm:
        swarm.start()
        node = swarm.nodes[1]  # which dialled the other one, and remembers it
        until(lambda: all(rounds(one) >= 2 for one in swarm.nodes), "rounds", *swarm.nodes)
        assert node.ask(f"/v1/ban?peer_id={BANNED}&for_s=86400&reason=test", method="POST") is not None
        # A rollout's damage is found when it is drawn, and only those with anything to learn are.
        until(
            lambda: rounds(node) >= ROUNDS and _buffer(node, "num_informative") >= 2,
            "rounds and rollouts",
            node,
        )
        until(lambda: (node.data_dir.root / "peers.json").exists(), "a peer book", node)
        until(lambda: (node.data_dir.root / "standings.json").exists(), "standings", node)
        kill_daemon(node)
    return node


def outcome_of(row: Row, base: LocalNode, folder: Path, control: Collection[str]) -> Outcome:
    """Damage a copy, start a node on it, and look."""
    root = folder / "node-0"
    shutil.copytree(base.data_dir.root, root, ignore=shutil.ignore_patterns("output.log", "control.sock"))
    with LocalSwarm(folder, 1, arguments=ARGUMENTS) as swarm:
        node = swarm.nodes[0]
        before, newest = next_counter(node.data_dir), newest_checkpoint(node)
        row.damage(root)
        swarm.start()
        wait_for = 0 if row.silent else ROUNDS_MAX

        def seen() -> bool:
            """A rollout's damage is found when it is drawn, which may take some rounds."""
            num = rounds(node) - newest
            return num >= AGAIN and (num >= wait_for or bool(said(node.output(), control)))

        until(lambda: not node.running or seen(), "rounds", node)
        at_work = status(node) if node.running else {}
        bans = (node.ask("/v1/bans") or {}).get("bans", []) if node.running else []
        num_rollouts = _buffer(node, "num_rollouts")
        if runs := node.running:
            kill_daemon(node)
        assert node.process is not None
        output = node.output()
        after = next_counter(node.data_dir)
        lost = [f"{num} rounds, told" for num, _ in told(node)]
        if runs and not num_rollouts:
            lost.append("rollouts of others")
        outcome = Outcome(
            0 if runs else node.process.returncode,
            output,
            (before, after),
            at_work.get("peer_id") in (None, base.identity.peer_id),
            not runs or any(ban["peer_id"] == BANNED for ban in bans),
            said(output, control),
            tuple(lost),
        )
    shutil.rmtree(folder)
    return outcome


def described(row: Row, outcome: Outcome, mistakes: list[str], *, silent: bool) -> str:
    """A row of the table, on some lines."""
    before, after = outcome.counter
    message = next((number for number, line in enumerate(outcome.said) if line.startswith("swarmd: ")), 0)
    words = [] if silent else list(outcome.said[message : message + WORDS])
    now = f"{outcome.code}, counter {before} -> {after}" if outcome.code == 0 else f"{outcome.code}"
    lines = [
        f"\n{row.name}: {'; '.join(mistakes).upper() or 'good'}",
        f"  before  {row.before}",
        f"  now     {now}{'; lost: ' + ', '.join(outcome.lost) if outcome.lost else ''}",
    ]
    lines += [f"          {textwrap.shorten(line, 200)}" for line in words]
    if not words and row.silent:
        lines.append(f"          (nothing said: {row.silent})")
    return "\n".join(lines)


def _buffer(node: LocalNode, name: str) -> int:
    return int((status(node).get("buffer") or {}).get(name, 0))


if __name__ == "__main__":
    main()
