"""Health: whether the node does its work, and what is wrong.

Some of it shows at a glance (`problems`), the rest only to somebody who keeps looking: `Health` looks once a second. Nothing here
waits for a loop or a child, so nothing that is stuck can keep it from being seen.
"""

import logging
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

import trio

from swarmd.clients.worker import Worker
from swarmd.files.datadir import DataDir
from swarmd.loops.pace import Pace
from swarmd.loops.progress import Progress
from swarmd.metrics import Metrics
from swarmd.metrics.labels import HEALTH_CODES
from swarmd.node.problems import Problem, at_a_glance
from swarmd.policy.state.durable import RESERVE_BYTES
from swarmd.protocol.rules import Verdict

T = TypeVar("T")

log = logging.getLogger(__name__)

LOOK_S = 1.0
# A phase that takes ten times as long as it lately did is stuck; the least is what a busy machine may take. The first rounds of a
# policy, where nothing is known, may take a quarter of an hour.
STALL_FACTOR, STALL_S_MIN, STALL_S_FIRST, SPELLS_KEPT = 10.0, 45.0, 900.0, 20
# So many replacements of one child within ten minutes are no accident.
RESTARTS_MAX, RESTARTS_S = 3, 600.0
# The share of a minute's messages that a clock refuses where it is the clock that is wrong, and the least number to tell.
CLOCK_S, CLOCK_SHARE, CLOCK_NUM_MIN = 60.0, 0.8, 5
# Messages heard, none of them accepted.
REFUSED_S, REFUSED_NUM_MIN = 300.0, 20
# A heartbeat of the network comes once a second; half a second late, peers begin to miss it.
LAG_S, LAG_S_MAX = 60.0, 0.5
# Rounds without a checkpoint: so many intervals, or rounds where each has one.
UNSAVED_INTERVALS, UNSAVED_ROUNDS = 3.0, 5


class _Heard(NamedTuple):
    """Totals of messages at one moment."""

    accepted: int
    future: int
    stale: int
    others: int


@dataclass
class Health:
    """Looks at the node once a second. `problems` is what it saw last; `healthy` whether the node does its work.

    Its many private fields are the windows over which it looks, each of one check.
    """

    progress: Progress
    workers: Mapping[str, Worker]
    pace: Pace
    metrics: Metrics
    data_dir: DataDir
    solo: bool
    problems: list[Problem] = field(default_factory=list)
    _now_s: Callable[[], float] = trio.current_time
    _at: tuple[str, int, int] = ("", 0, 0)
    _since_s: float = 0.0
    _spells_s: dict[str, deque[float]] = field(default_factory=dict)
    _restarts: dict[str, "_Window[int]"] = field(default_factory=dict)
    _heard: "_Window[_Heard]" = field(default_factory=lambda: _Window(REFUSED_S))
    _lags: "_Window[float]" = field(default_factory=lambda: _Window(LAG_S))
    _saved_s: float = 0.0
    _saved_round: int | None = None

    @property
    def healthy(self) -> bool:
        return not any(problem.unhealthy for problem in self.problems)

    async def run(self) -> None:
        """Look for ever, and measure meanwhile how late a timer of this event loop is."""
        while True:
            before = self._now_s()
            await trio.sleep(LOOK_S)
            lag_s = max(0.0, self._now_s() - before - LOOK_S)
            self.metrics.loop_lag.observe(lag_s)
            self.look(lag_s)

    def look(self, lag_s: float = 0.0) -> None:
        """One look; what begins and ends is logged, and the metrics are set."""
        now_s = self._now_s()
        self._lags.add(now_s, lag_s)
        self._since_s += lag_s  # nobody did anything while this process did not run
        before = {problem.code for problem in self.problems}
        glance = at_a_glance(self.progress, self.workers, self.data_dir, solo=self.solo)
        found = [*glance, *self._stalled(now_s), *self._unstable(now_s), *self._unsaved(now_s)]
        found += [*self._disk(), *self._messages(now_s), *self._busy()]
        self.problems = list({problem.code: problem for problem in reversed(found)}.values())[::-1]
        codes = {problem.code for problem in self.problems}
        for problem in self.problems:
            if problem.code not in before:
                extra = {"of": problem.code}
                log.warning("%s: %s %s", problem.code, problem.text, problem.fix, extra=extra)
        for code in before - codes:
            log.info("%s is over", code)
        for code in HEALTH_CODES:
            self.metrics.health.labels(code).set(code in codes)
        self.metrics.healthy.set(self.healthy)
        self.metrics.ready.set(all(worker.up for worker in self.workers.values()))

    def _stalled(self, now_s: float) -> Iterator[Problem]:
        """No step forward within what this node's own pace makes likely."""
        progress = self.progress
        at = progress.phase, progress.round, progress.policy_version
        if at != self._at:
            if self._at[0]:
                spells = self._spells_s.setdefault(self._at[0], deque(maxlen=SPELLS_KEPT))
                spells.append(now_s - self._since_s)
            self._at, self._since_s = at, now_s
        if progress.phase in ("starting", "idle"):
            return
        spells = self._spells_s.get(progress.phase, deque())
        bound_s = max(STALL_S_MIN, STALL_FACTOR * max(spells)) if spells else STALL_S_FIRST
        if (spell_s := now_s - self._since_s) > bound_s:
            text = f"No step forward for {spell_s:.0f} s, in the phase {progress.phase!r}"
            text += f", which lately took {max(spells):.0f} s at most." if spells else "."
            yield Problem(
                "stalled",
                text,
                f"See {self.data_dir.log('generation').parent}; `swarmd stop` and a new start lose nothing.",
            )

    def _unstable(self, now_s: float) -> Iterator[Problem]:
        for name, worker in self.workers.items():
            window = self._restarts.setdefault(name, _Window(RESTARTS_S))
            window.add(now_s, worker.num_restarts)
            if (num := worker.num_restarts - window.oldest) >= RESTARTS_MAX:
                text = f"The {name} process was replaced {num} times in {RESTARTS_S / 60:.0f} minutes."
                yield Problem("worker_unstable", text, f"See {self.data_dir.log(name)}.")

    def _unsaved(self, now_s: float) -> Iterator[Problem]:
        if self.pace.saved_round != self._saved_round or not self._saved_s:
            self._saved_round, self._saved_s = self.pace.saved_round, now_s
        num = self.progress.round - (self._saved_round or 0)
        old_s = now_s - self._saved_s
        late = (
            old_s > UNSAVED_INTERVALS * self.pace.interval_s
            if self.pace.background
            else num > max(UNSAVED_ROUNDS, 2 * self.pace.every_rounds)
        )
        if num > 0 and late:
            text = f"The last {num} rounds have no checkpoint; a crash would lose them."
            yield Problem(
                "unsaved", text, "Look at the disk of the data directory; `swarmd stop` writes a checkpoint."
            )

    def _disk(self) -> Iterator[Problem]:
        root = self.data_dir.root
        try:
            disk = os.statvfs(root)
        except OSError as error:
            yield Problem("disk_failing", f"{root} cannot be looked at: {error}.", "Look at the disk.")
            return
        free_bytes = disk.f_bavail * disk.f_frsize
        self.metrics.disk_free.set(free_bytes)
        if disk.f_flag & os.ST_RDONLY:
            text = f"{root} is read-only: nothing can be saved."
            yield Problem(
                "disk_read_only", text, "Look at the system's log: disks turn read-only when they fail."
            )
        elif free_bytes < RESERVE_BYTES:
            text = f"{root} has {free_bytes / 2**20:.0f} MiB free; checkpoints leave {RESERVE_BYTES / 2**20:.0f} MiB alone."
            yield Problem(
                "disk_low", text, "Free some space. The node goes on, and saves again when there is room."
            )

    def _messages(self, now_s: float) -> Iterator[Problem]:
        """What a wrong clock, or another wrong thing that all peers' messages have in common, does to them."""
        network = self.progress.shown.network
        if network.stats is None:
            return
        verdicts = network.stats.verdicts
        future, stale = verdicts.get("age_future", 0), verdicts.get("age_stale", 0)
        accepted = network.num(Verdict.ACCEPT)
        others = network.num(Verdict.IGNORE) + network.num(Verdict.REJECT) - future - stale
        now = _Heard(accepted, future, stale, others)
        self._heard.add(now_s, now)
        lately = _growth(self._heard.since(now_s - CLOCK_S), now)
        for num, way in ((lately.future, "behind"), (lately.stale, "ahead")):
            if num >= max(CLOCK_NUM_MIN, CLOCK_SHARE * sum(lately)):
                text = f"This machine's clock seems to be {way}:"
                text += f" by it, {num} of the last minute's {sum(lately)} messages have a wrong time."
                yield Problem(
                    "clock_off",
                    text,
                    "Set the clock (timedatectl set-ntp true). Others drop what this node shares.",
                )
                return
        long = _growth(self._heard.oldest, now)
        if not long.accepted and sum(long) >= REFUSED_NUM_MIN and self._heard.spans_s(now_s) > REFUSED_S / 2:
            text = f"None of the last {sum(long)} messages of peers was accepted."
            yield Problem(
                "nothing_accepted",
                text,
                "See `swarmd peers`, and whether this swarmd is the version that the others run.",
            )

    def _busy(self) -> Iterator[Problem]:
        if (lag_s := max(self._lags.values())) > LAG_S_MAX:
            text = (
                f"The daemon was {lag_s:.1f} s late within the last minute: the machine is too busy for it."
            )
            yield Problem("loop_lag", text, "Leave it a core: policy.threads, or fewer programs beside it.")


class _Window(Generic[T]):
    """Values of the last so many seconds, and the newest one from before."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._values: deque[tuple[float, T]] = deque()

    def add(self, now_s: float, value: T) -> None:
        self._values.append((now_s, value))
        while len(self._values) > 1 and self._values[1][0] <= now_s - self._seconds:
            self._values.popleft()

    @property
    def oldest(self) -> T:
        return self._values[0][1]

    def values(self) -> Iterator[T]:
        return (value for _, value in self._values)

    def since(self, then_s: float) -> T:
        """The newest value from before `then_s`, or the oldest there is."""
        found = self.oldest
        for at_s, value in self._values:
            if at_s > then_s:
                break
            found = value
        return found

    def spans_s(self, now_s: float) -> float:
        return now_s - self._values[0][0]


def _growth(before: _Heard, now: _Heard) -> _Heard:
    """Of totals that begin anew with each network process."""
    return _Heard(*(max(0, new - old) for old, new in zip(before, now, strict=True)))
