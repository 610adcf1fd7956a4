"""What must hold whatever happened, each a function that returns what is wrong in words."""

import json
import sqlite3
import time
from contextlib import closing
from itertools import pairwise
from pathlib import Path

from swarmd.files.datadir import DataDir
from swarmd.policy.state.checkpoints import damage
from swarmd.protocol.signing import peer_id_of
from swarmd.trust.standing import Standings
from swarmd.trust.standings_file import decode_into
from tests.chaos.target import Target, untold
from tests.e2e.watch import status

# In a data directory, however often something was set aside in it: a bound on what is left behind.
ENTRIES_MAX = 60


def next_counter(data_dir: DataDir) -> int | None:
    """The first question number that was not given out, by the file; None where it cannot be read now."""
    try:
        with closing(sqlite3.connect(f"file:{data_dir.counters}?mode=ro", uri=True, timeout=2)) as db:
            found = db.execute("SELECT value FROM facts WHERE name = 'next_counter'").fetchone()
            return None if found is None else int(found[0])
    except (sqlite3.Error, TypeError, ValueError, OverflowError):
        return None


def counters(target: Target, last: int) -> tuple[int, list[str]]:
    """The question counter never falls. Returns what it is now, for the next look."""
    now = next_counter(target.node.data_dir)
    if now is None:
        return last, []
    return max(now, last), [f"the question counter fell from {last} to {now}"] if now < last else []


def identity(target: Target) -> list[str]:
    """The node signs as who it was made to be."""
    told = status(target.node).get("peer_id")
    return [] if told in (None, target.node.identity.peer_id) else [f"it is {told} now"]


def rounds(target: Target) -> list[str]:
    """Rounds never go back without a word, and each policy version belongs to its round."""
    return untold(target.said()) + _versions(target.node.data_dir.rounds)


def checkpoints(target: Target) -> list[str]:
    """Of a node that has ended: every checkpoint that has its name verifies, and there is one."""
    found = sorted(target.node.data_dir.checkpoints.glob("round-*"))
    wrong = [f"{path.name}: {reason}" for path in found if (reason := damage(path))]
    return wrong or ([] if found else ["no checkpoint"])


def databases(target: Target) -> list[str]:
    """Of a node that has ended: its databases are sound."""
    wrong = []
    for path in (target.node.data_dir.buffer, target.node.data_dir.counters):
        with closing(sqlite3.connect(path)) as db:
            try:
                told = db.execute("PRAGMA integrity_check").fetchone()[0]
            except sqlite3.Error as error:
                told = str(error)
        if told != "ok":
            wrong.append(f"{path.name}: {told}")
    return wrong


def duplicates(target: Target, nodes: dict[str, str]) -> list[str]:
    """Of a node that has ended: no rollout of the other nodes came to it twice under one number, by its standings."""
    standings = Standings(proven_rollouts=1)
    try:
        decode_into(standings, target.node.data_dir.standings.read_bytes(), time.time())
    except (OSError, ValueError) as error:
        return [f"standings: {error}"]
    return [
        f"{nodes[peer]} used {standing.num_duplicate} numbers twice, says {target.node.name}"
        for author, standing in standings.authors()
        if standing.num_duplicate and (peer := peer_id_of(author)) in nodes
    ]


def leftovers(target: Target) -> list[str]:
    """Of a node that has ended: nothing temporary lies about, and what was set aside is bounded."""
    root = target.node.data_dir.root
    found = [path for path in root.rglob("*") if "cache" not in path.relative_to(root).parts]
    wrong = [f"left behind: {path.relative_to(root)}" for path in found if _is_temporary(path)]
    if len(found) > ENTRIES_MAX:
        wrong.append(f"{len(found)} files: {sorted(path.name for path in found)}")
    return wrong


def _is_temporary(path: Path) -> bool:
    return path.name.endswith(".tmp") or path.name.startswith((".tmp-", ".old-", "damaged-"))


def _versions(history: Path) -> list[str]:
    """A round later, the policy is at the same version (nothing to learn from) or at the next one."""
    records = []
    for line in history.read_bytes().splitlines() if history.exists() else ():
        try:
            record = json.loads(line)
            records.append((int(record["round"]), int(record["policy_version"])))
        except (ValueError, KeyError, TypeError):
            continue  # a bit of it was flipped, or a full disk has cut it off
    return [
        f"round {number} has policy version {version} after {before} of round {last}"
        for (last, before), (number, version) in pairwise(records)
        if number == last + 1 and not 0 <= version - before <= 1
    ]
