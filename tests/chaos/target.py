"""One node under fault: its processes, its shim, and what it says, read in order."""

import os
import random
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from swarmd.experiment.swarms.local_swarm import LocalNode, LocalSwarm
from tests.chaos.shim import Shim
from tests.e2e.history import LOST
from tests.e2e.watch import alive, descendants, status

ROUND = re.compile(r"^\d\d:\d\d:\d\d round (\d+) .*?(NOT SAVED)?$")
RESUMED = re.compile(r"^✓ resumed +after round (\d+)")
# How long anything may take on a machine that three nodes keep busy.
PATIENCE_S = 240.0
# After a daemon's death its children end by themselves.
ORPHANS_S = 15.0


class Said(NamedTuple):
    """A round, or (`num_lost` above 0) rounds lost after round `number`, or that a start went on after round `number`."""

    number: int
    is_saved: bool = True
    num_lost: int = 0
    is_start: bool = False


class NotBack(Exception):
    """The node did not do what it should within `PATIENCE_S`."""


@dataclass
class Target:
    """The node `number` of a swarm. `wrong` collects what broke an invariant, in words."""

    swarm: LocalSwarm
    number: int
    shim: Shim
    rng: random.Random
    wrong: list[str] = field(default_factory=list)

    @property
    def node(self) -> LocalNode:
        return self.swarm.nodes[self.number]

    @property
    def pid(self) -> int:
        assert self.node.process is not None
        return self.node.process.pid

    def said(self) -> list[Said]:
        """Rounds and losses, in the order in which the person at the terminal read them."""
        found = []
        for line in self.node.output().splitlines():
            if done := ROUND.match(line):
                found.append(Said(int(done[1]), done[2] is None))
            elif lost := LOST.search(line):
                found.append(Said(int(lost["newest"]), num_lost=int(lost["num"] or 1)))
            elif resumed := RESUMED.match(line):
                found.append(Said(int(resumed[1]), is_start=True))
        return found

    def num_rounds(self) -> int:
        """Rounds said so far, over all starts."""
        return sum(not said.num_lost and not said.is_start for said in self.said())

    def num_lost(self) -> int:
        """Rounds told as lost so far."""
        return sum(said.num_lost for said in self.said())

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait. Raises NotBack with the node's last words."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.1)
        raise NotBack(f"{self.node.name}: no {what} within {PATIENCE_S:.0f} s: {self.node.output()[-700:]}")

    def rounds_more(self, num: int = 1) -> None:
        done = self.num_rounds()
        self.until(lambda: self.num_rounds() >= done + num, "round")

    def child(self, worker: str) -> int:
        """The process id of a child that is up."""
        found = 0

        def there() -> bool:
            nonlocal found
            found = status(self.node).get("workers", {}).get(worker, {}).get("pid") or 0
            return bool(found)

        self.until(there, worker)
        return found

    def zygote(self) -> int:
        """The process id of the zygote below the scorer."""
        found = 0

        def there() -> bool:
            nonlocal found
            below = descendants(self.child("scorer"))
            found = next((pid for pid in sorted(below) if b"zygote" in cmdline(pid)), 0)
            return bool(found)

        self.until(there, "zygote")
        return found

    def start(self) -> None:
        self.swarm.start(self.number)

    def kill_daemon(self) -> None:
        """SIGKILL for the daemon alone, and the end of its children."""
        below = descendants(self.pid)
        assert self.node.process is not None
        self.node.process.kill()
        self.node.process.wait()
        self.require_no_orphans(below)

    def require_no_orphans(self, below: set[int]) -> None:
        """Processes that were below a daemon that is gone must end soon; a stopped one is let go on first."""
        end = time.monotonic() + ORPHANS_S
        while left := sorted(filter(alive, below)):
            if time.monotonic() > end:
                self.wrong.append(
                    f"orphans {ORPHANS_S:.0f} s after the daemon's death: {list(map(cmdline, left))}"
                )
                for pid in left:
                    signal_to(pid, signal.SIGKILL)
                return
            time.sleep(0.1)

    def ended_by_itself(self, wanted: tuple[int, ...]) -> int:
        """Wait for the daemon to end, with one of these codes."""
        self.until(lambda: not self.node.running, "end")
        assert self.node.process is not None
        code = int(self.node.process.returncode)
        if code not in wanted:
            self.wrong.append(f"exit {code}, documented {wanted}: {self.node.output()[-500:]}")
        return code


def untold(said: list[Said]) -> list[str]:
    """Where the rounds go back, or leave some out, without a word: neither told as lost nor said to be unsaved before.

    A kill between a checkpoint and the line of its round costs the line: the start that goes on after that round says its number.
    """
    found = []
    told = {one.number for one in said if one.num_lost}
    unsaved = {one.number for one in said if not one.is_saved}
    last = 0
    for one in said:
        if one.num_lost:
            continue
        if one.is_start:
            last += one.number == last + 1
            continue
        again = set(range(one.number, last + 1))
        if one.number <= last and one.number - 1 not in told and not again <= unsaved:
            found.append(f"round {last}, then {one.number}, and nothing said")
        if one.number > last + 1:
            found.append(f"round {last}, then {one.number}")
        last = one.number
    return found


def signal_to(pid: int, number: signal.Signals) -> bool:
    """Send a signal; whether the process was there."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def cmdline(pid: int) -> bytes:
    """The command of a process, empty when it is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ")
    except OSError:
        return b""
