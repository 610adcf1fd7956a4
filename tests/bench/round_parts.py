"""A policy process that says where the time of its operations goes: `TimedPolicy`, served as `PolicyService` is.

Every moment belongs to one part, the innermost one under way. At each change of part the device is waited for, so a part has two
times: `host`, until the host had nothing more to ask of the device, and `waiting`, until the device was done with it. These waits
cost a little of what runs side by side otherwise. On a CPU all is host.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch

from swarmd.clients.policy import PolicyInfo
from swarmd.policy import service as service_module
from swarmd.policy.generation import batch
from swarmd.policy.service import PolicyService
from swarmd.policy.update import learner, packing, passes

# Where the parts begin: a name, whose function it is, and the function's name. The objects of a service come with it.
PARTS: tuple[tuple[str, object, str], ...] = (
    ("tokenise, advantages", service_module, "token_rollouts"),
    ("weights of tokens", learner, "prepare"),
    ("weights of tokens", learner, "weigh"),
    ("pack", learner, "first_fit"),
    ("pack", passes, "collate"),
    ("pack", passes, "layout_of"),
    ("upload", packing, "upload"),
    ("upload", batch, "upload"),
    ("forward, backward", learner.Learner, "run_packs"),
    ("optimizer", learner.Learner, "take_step"),
    ("statistics", learner, "summarise"),
)


def nothing() -> None:
    """A CPU is never waited for."""


class Clock:
    """Time by part. `synchronise` waits for the device; `counted` are running totals, shared out to parts as time is."""

    def __init__(
        self,
        synchronise: Callable[[], None] = nothing,
        now_s: Callable[[], float] = time.perf_counter,
        counted: Callable[[], Counter[str]] = Counter,
    ) -> None:
        self._synchronise, self._now_s, self._counted = synchronise, now_s, counted
        self._under_way = ["between"]
        self._since_s, self._before = now_s(), counted()
        self.host_s: defaultdict[str, float] = defaultdict(float)
        self.waiting_s: defaultdict[str, float] = defaultdict(float)
        self.counts: dict[str, Counter[str]] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Within the block time is this part's, but for parts within it."""
        self._change()
        self._under_way.append(name)
        try:
            yield
        finally:
            self._change()
            self._under_way.pop()

    def wrap(self, owner: object, attribute: str, name: str) -> None:
        """Make an object's function a part."""
        function = getattr(owner, attribute)

        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.part(name):
                return function(*args, **kwargs)

        setattr(owner, attribute, timed)

    def read(self) -> dict[str, dict[str, float]]:
        """Every part's time and counts since the last reading."""
        names = dict.fromkeys([*self.host_s, *self.counts])
        names.pop("between", None)
        told: dict[str, dict[str, float]] = {
            name: {"host": self.host_s[name], "waiting": self.waiting_s[name], **self.counts.get(name, {})}
            for name in names
        }
        self.host_s.clear()
        self.waiting_s.clear()
        self.counts.clear()
        return told

    def _change(self) -> None:
        part, asked_s = self._under_way[-1], self._now_s()
        self._synchronise()
        done_s, counted = self._now_s(), self._counted()
        self.host_s[part] += asked_s - self._since_s
        self.waiting_s[part] += done_s - asked_s
        if moved := counted - self._before:
            self.counts.setdefault(part, Counter()).update(moved)
        self._since_s, self._before = done_s, counted


class TimedPolicy(PolicyService):
    """A policy service whose operation `parts` tells of the operations since it was last asked."""

    OPS = PolicyService.OPS | {"parts", "watch", "watched"}
    counted: Callable[[], Counter[str]] = staticmethod(Counter)

    def start(self) -> PolicyInfo:
        info = super().start()
        assert self._learner is not None
        on_cuda = self._device.startswith("cuda")
        self._clock = Clock(torch.cuda.synchronize if on_cuda else nothing, counted=self.counted)
        for name, owner, attribute in (
            *PARTS,
            ("hand-over", self, "_sync_engine"),
            ("engine", self._engine, "generate"),
            ("text of answers", self, "_completion"),
            ("tokenise, advantages", self._tokeniser, "prompt_ids"),
            ("checkpoint, held", self._learner.learner, "before_step"),
            ("checkpoint, held", self, "_save"),
            ("generate, rest", self, "generate"),
            ("update, rest", self, "update"),
        ):
            self._clock.wrap(owner, attribute, name)
        return info

    def parts(self) -> dict[str, dict[str, float]]:
        """See `Clock.read`."""
        return self._clock.read()

    def watch(self) -> None:
        """From here on what the device computes and copies is recorded."""
        kinds = torch.profiler.ProfilerActivity
        self._profile = torch.profiler.profile(
            activities=[kinds.CUDA if torch.cuda.is_available() else kinds.CPU]
        )
        self._profile.start()

    def watched(self) -> float:
        """Seconds that a CUDA device was at work since `watch`; 0 without one."""
        self._profile.stop()
        return float(sum(event.self_device_time_total for event in self._profile.key_averages())) / 1e6
