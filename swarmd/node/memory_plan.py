"""The memory plan in force: who may change it, who hears of it, and when a killed process counts as a lack of memory."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from swarmd.clients.events import PlanChanged
from swarmd.loops.ports import Say
from swarmd.loops.progress import Progress
from swarmd.metrics import Metrics

log = logging.getLogger(__name__)
# One kill of the updating process may be anybody's: an operator's, a chaos test's. Two in the same round are not chance. At one, an
# idle `kill -9` would cost a node its speed for good; at three the round would be given up before a smaller plan was tried.
KILLS_MAX = 2


@dataclass
class MemoryPlan:
    """Which plan the updating process is started with, and what is told of it.

    The process itself steps down when its allocator runs out, and says so (`changed`). When the kernel kills it instead, it can say
    nothing, and the step is taken here (`killed`) before its successor starts.

    Args:
        names: the plans of this device, in order; none where memory could not be computed.
        progress: has the plan in force.
        num_oom_kills: the kernel's count of processes that it killed for lack of memory, None where it does not tell.
    """

    names: tuple[str, ...]
    progress: Progress
    metrics: Metrics
    say: Say
    num_oom_kills: Callable[[], int | None]
    _num_oom_kills: int | None = field(init=False)
    _killed_in: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._num_oom_kills = self.num_oom_kills()
        self.metrics.set_memory_plan(self.progress.plan)

    @property
    def name(self) -> str:
        """The plan in force."""
        return self.progress.plan

    def changed(self, event: PlanChanged) -> None:
        """The updating process goes on under another plan."""
        self.progress.plan = event.after
        self.metrics.set_memory_plan(event.after)
        self.metrics.memory_plan_changes.inc()
        self.say(f"! memory     out of memory in round {event.round}: plan {event.before} -> {event.after}")
        log.warning("round %d: plan %s -> %s: %s", *event)

    def killed(self) -> None:
        """The updating process was killed, and not by us. Where that means a lack of memory the next one starts a plan lower.

        It does when the kernel has counted such a kill since the last look, or at the second kill in the same round. A kill
        outside of an update says nothing of what an update needs.
        """
        counted, self._num_oom_kills = self._num_oom_kills, self.num_oom_kills()
        if self.progress.phase != "update":
            return
        number = self.progress.round + 1
        self._killed_in = [*(one for one in self._killed_in if one == number), number]
        if self._num_oom_kills == counted and len(self._killed_in) < KILLS_MAX:
            return
        later = self.names[self.names.index(self.name) + 1 :] if self.name in self.names else ()
        if later:
            why = "the kernel killed the process that updates"
            self.changed(PlanChanged(number, self.name, later[0], why))
