"""Processes that attack: started, told what to do, heard, and ended for certain."""

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from swarmd.experiment.swarms.reaper import Reaper, kill_group
from tests.attack.deeds import MUTE

# What an attack counts only when a victim took part: bytes it took, connections now, once, and those that came to a mute bootstrap.
REACHED = ("sent", "held", "opened", "dialled")
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
    local_ports: Sequence[int] = ()


class Attackers:
    """Processes that attack, as a context; `counted` is by attack. Leaving it ends them for certain."""

    def __init__(self, groups: Sequence[Sequence[str]], scene: Scene, reaper: Reaper, log: Path) -> None:
        self._groups, self._scene, self._reaper, self._log = groups, scene, reaper, log
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
            self._reaper.watch(process.pid)
            orders = {
                "names": names,
                "seed": scene.seed,
                "manifest": str(scene.manifest),
                "victims": list(scene.victims),
                "markers": str(scene.markers),
                "port": scene.port,
                "listen": list(scene.listen),
                "local_ports": list(scene.local_ports),
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
            self._reaper.forget(process.pid)

    def wait_until_begun(self) -> bool:
        """Whether every attack has reached a victim in time; one that only waits to be called has begun with its process."""
        deadline = time.monotonic() + BEGIN_S
        while time.monotonic() < deadline and self.idle() and not self.dead():
            time.sleep(0.1)
        return not self.idle()

    def idle(self) -> list[str]:
        """Attacks that have reached nobody so far."""
        counted = self.counted
        return [
            name
            for names in self._groups
            for name in names
            if name not in counted or not (name == MUTE or reached(counted[name]))
        ]

    def dead(self) -> list[str]:
        """Groups whose process has ended, though nobody ended it; one that is stopped has not."""
        return [
            f"{' + '.join(names)} (exit {process.returncode})"
            for names, process in zip(self._groups, self._processes, strict=True)
            if process.poll() is not None
        ]

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


def reached(counted: Mapping[str, int]) -> bool:
    """Whether an attack got anything to a victim: bytes that it took, or a connection."""
    return any(counted.get(key, 0) > 0 for key in REACHED)
