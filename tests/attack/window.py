"""One window of time on a running swarm, quiet or under attack: what the nodes did in it, and what it cost them."""

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from swarmd.experiment.swarms.guard import Guard, kill_group
from swarmd.experiment.swarms.local_swarm import LocalNode, LocalSwarm
from tests.attack.deeds import MUTE
from tests.attack.looks import PARTS, Look, patient_look

# An attacker's process imports for some seconds, more on busy cores.
BEGIN_S = 180.0


@dataclass(frozen=True)
class Scene:
    """What every attacker needs to know."""

    manifest: Path | str
    victims: Sequence[str]
    markers: Path
    port: int
    seed: int
    listen: Sequence[int] = ()


class Attackers:
    """Processes that attack, as a context; `counted` is by attack. Leaving it ends them for certain."""

    def __init__(self, groups: Sequence[Sequence[str]], scene: Scene, guard: Guard, log: Path) -> None:
        self._groups, self._scene, self._guard, self._log = groups, scene, guard, log
        self._processes: list[subprocess.Popen[str]] = []
        self._said: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        scene = self._scene
        for names in self._groups:
            with self._log.open("a") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", "tests.attack.hostile"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    start_new_session=True,
                    env={**os.environ, "OMP_NUM_THREADS": "1"},
                )
            self._guard.watch(process.pid)
            orders = {
                "names": names,
                "seed": scene.seed,
                "manifest": str(scene.manifest),
                "victims": list(scene.victims),
                "markers": str(scene.markers),
                "port": scene.port,
                "listen": list(scene.listen),
                "in_company": len(self._groups) > 1,
            }
            assert process.stdin is not None
            process.stdin.write(json.dumps(orders) + "\n")
            process.stdin.flush()
            self._processes.append(process)
            self._said.append({})
            threading.Thread(target=self._listen, args=(len(self._said) - 1, process), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            kill_group(process.pid)  # also one that is stopped
            process.wait()
            self._guard.forget(process.pid)

    def wait_until_begun(self) -> bool:
        """Whether every attack has sent or holds something in time; one that only waits to be called has begun with its process."""
        deadline = time.monotonic() + BEGIN_S
        while time.monotonic() < deadline and not self._begun():
            time.sleep(0.1)
        return self._begun()

    def _begun(self) -> bool:
        return all(self._said) and all(
            name == MUTE or found["sent"] or found["held"] for name, found in self.counted.items()
        )

    @property
    def cpu_s(self) -> float:
        """Of all of them so far."""
        return float(sum(said.get("cpu_s", 0.0) for said in self._said))

    @property
    def counted(self) -> dict[str, Counter[str]]:
        """What each attack counted so far."""
        return {
            name: Counter(found) for said in self._said for name, found in said.get("counted", {}).items()
        }

    def _listen(self, place: int, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._said[place] = json.loads(line)


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
def started(swarm: LocalSwarm, guard: Guard) -> Iterator[None]:
    """All nodes of the swarm run, watched by the guard; at the end they are stopped and forgotten."""
    swarm.start()
    groups = [node.process.pid for node in swarm.nodes if node.process is not None]
    for group in groups:
        guard.watch(group)
    yield
    swarm.stop(evaluate=False)
    for group in groups:
        guard.forget(group)


def window(nodes: Sequence[LocalNode], seconds: float, attackers: Attackers | None = None) -> Window:
    """Watch these nodes for a time; attackers have to be at it already."""
    before, cpu_s = [patient_look(node) for node in nodes], attackers.cpu_s if attackers else 0.0
    began, began_ms = time.monotonic(), time.time_ns() // 1_000_000
    counted = dict(attackers.counted) if attackers else {}
    time.sleep(seconds)
    after = [patient_look(node) for node in nodes]
    done = {}
    if attackers:
        for name, found in attackers.counted.items():
            grown = Counter({key: num - counted.get(name, Counter())[key] for key, num in found.items()})
            grown["held"] = found["held"]
            done[name] = grown
        cpu_s = attackers.cpu_s - cpu_s
    return Window(time.monotonic() - began, before, after, began_ms, done, cpu_s)
