"""One window of time on a running swarm, quiet or under attack: what the nodes did in it, and what it cost them."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from swarmd.experiment.swarms.local_swarm import LocalNode, LocalSwarm
from swarmd.experiment.swarms.reaper import Reaper
from tests.attack.attackers import Attackers
from tests.attack.looks import PARTS, Look, patient_look

# An attacker may wait for a victim so long, for a stream and for a message (peer.OPEN_S, WRITE_S), and does nothing else then: a
# window of attackers that are all at it is longer by that at the most.
PATIENCE_S = 30.0


@dataclass(frozen=True)
class Window:
    """Two looks at every node, and what the attackers did between them."""

    seconds: float
    before: Sequence[Look]
    after: Sequence[Look]
    began_ms: int = 0
    counted: dict[str, Counter[str]] = field(default_factory=dict)
    attacker_cpu_s: float = 0.0

    @property
    def num_rounds(self) -> int:
        """Rounds of all nodes."""
        return self.growth(lambda one: one.round)

    def growth(self, of: Callable[[Look], float]) -> Any:
        """How much something grew, summed over the nodes that answered both times; a counter that began anew counts from 0."""
        pairs = [(of(a), of(b)) for a, b in self.pairs()]
        return sum(later - earlier if later >= earlier else later for earlier, later in pairs)

    def pairs(self) -> list[tuple[Look, Look]]:
        """Before and after, of the nodes that answered both times."""
        return [(a, b) for a, b in zip(self.before, self.after, strict=True) if a.answers and b.answers]

    def cpu_s(self) -> dict[str, float]:
        """CPU seconds of all nodes by part."""
        return {part: float(self.growth(lambda one, part=part: one.cpu_s[part])) for part in PARTS}

    def rewards(self, records: Iterable[Mapping[str, Any]]) -> list[float]:
        """Own rewards of those rounds that ended in this window."""
        ended_ms = self.began_ms + self.seconds * 1000
        return [record["reward_own"] for record in records if self.began_ms <= record["time_ms"] < ended_ms]


@contextmanager
def started(swarm: LocalSwarm, reaper: Reaper) -> Iterator[None]:
    """All nodes of the swarm run, watched by the reaper; at the end they are stopped and forgotten."""
    swarm.start()
    groups = [node.process.pid for node in swarm.nodes if node.process is not None]
    for group in groups:
        reaper.watch(group)
    yield
    swarm.stop(evaluate=False)
    for group in groups:
        reaper.forget(group)


def grown(
    before: Mapping[str, Mapping[str, int]], after: Mapping[str, Mapping[str, int]]
) -> dict[str, Counter[str]]:
    """What each attack counted between two moments; what it holds is as of the second."""
    found = {
        name: Counter({key: num - before.get(name, {}).get(key, 0) for key, num in counted.items()})
        for name, counted in after.items()
    }
    for name, counted in found.items():
        counted["held"] = after[name].get("held", 0)
    return found


def idle_in(done: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Attacks that did nothing: nothing sent, tried or held."""
    return [name for name, counted in done.items() if not any(num > 0 for num in counted.values())]


def window(nodes: Sequence[LocalNode], seconds: float, attackers: Attackers | None = None) -> Window:
    """Watch these nodes for a time; attackers have to be at it already, and each does something in it, or has had the time."""
    before, cpu_s = [patient_look(node) for node in nodes], attackers.cpu_s if attackers else 0.0
    began, began_ms = time.monotonic(), time.time_ns() // 1_000_000
    counted = dict(attackers.counted) if attackers else {}
    time.sleep(seconds)
    done: dict[str, Counter[str]] = {}
    while attackers and idle_in(done := grown(counted, attackers.counted)):
        if attackers.dead() or time.monotonic() > began + seconds + PATIENCE_S:
            break
        time.sleep(0.5)
    after = [patient_look(node) for node in nodes]
    if attackers:
        cpu_s = attackers.cpu_s - cpu_s
    return Window(time.monotonic() - began, before, after, began_ms, done, cpu_s)
