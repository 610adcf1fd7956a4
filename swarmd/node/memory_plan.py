"""A node's memory plan: chosen from the settings before anything is downloaded or spawned, and followed while the node runs.

`MemoryPlan` knows who may change the plan, who hears of it, and when a killed process counts as a lack of memory. No torch.
"""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from swarmd.clients.events import PlanChanged
from swarmd.clients.policy import State
from swarmd.config import Config
from swarmd.errors import ConfigError, LocalError, OutOfMemory
from swarmd.loops.ports import Say
from swarmd.loops.progress import Progress
from swarmd.metrics import Metrics
from swarmd.node.children import Placement
from swarmd.policy.model.folder import ResolvedModel
from swarmd.policy.model.packages import INSTALL, missing, vllm_build
from swarmd.policy.model.resolve import TINY
from swarmd.policy.model.toolchain import toolchain_trouble
from swarmd.policy.plans.choice import NOT_ASKED, Choice, choose, price
from swarmd.policy.plans.ladder import installed, ladder
from swarmd.policy.plans.larger import LargerRound
from swarmd.policy.plans.needs import ONE_COPY_KINDS, Where, Work
from swarmd.policy.plans.room import Room, look
from swarmd.policy.plans.shape import read_shape
from swarmd.policy.plans.words import required, start_line

log = logging.getLogger(__name__)
# One kill of the updating process may be anybody's: an operator's, a chaos test's. Two in the same round are not chance. At one, an
# idle `kill -9` would cost a node its speed for good; at three the round would be given up before a smaller plan was tried.
KILLS_MAX = 2
# Failures without progress after which a plan is given up. At two, a driver that stumbles once at each start costs the node a
# plan; at six, a quarter of an hour passes with nothing done.
FAILURES_MAX = 3


@dataclass
class MemoryPlan:
    """Which plan the updating process is started with, and what is told of it.

    The process itself steps down when its allocator runs out, and says so (`changed`). When the kernel kills it instead, it can say
    nothing, and the step is taken here (`failed`) before its successor starts.

    Args:
        names: the plans of this device, in order; none where memory could not be computed.
        progress: has the plan in force.
        num_oom_kills: the kernel's count of processes that it killed for lack of memory, None where it does not tell.
        lasting: what has been achieved that no failure takes back; another value is progress.
    """

    names: tuple[str, ...]
    progress: Progress
    metrics: Metrics
    say: Say
    num_oom_kills: Callable[[], int | None]
    lasting: Callable[[], object]
    _num_oom_kills: int | None = field(init=False)
    _killed_in: list[int] = field(default_factory=list)
    _failures: "list[_Failure]" = field(default_factory=list)

    def __post_init__(self) -> None:
        self._num_oom_kills = self.num_oom_kills()
        self.metrics.set_memory_plan(self.progress.plan)

    @property
    def name(self) -> str:
        return self.progress.plan

    def changed(self, event: PlanChanged) -> None:
        self.progress.plan = event.after
        self.metrics.set_memory_plan(event.after)
        self.metrics.memory_plan_changes.inc()
        self.say(f"! memory     plan {event.before} -> {event.after} in round {event.round}: {event.why}")
        log.warning("round %d: plan %s -> %s: %s", *event)

    def failed(self, reason: str) -> None:
        """A process of the policy has to be replaced, for one of `metrics.labels.RESTART_REASONS`.

        Its successor starts a plan lower where memory ran out: the process said so (`memory`), or was killed under an update and
        the kernel has counted such a kill since the last look, or it is the second kill in the same round. It also does where
        processes fail again and again without progress, whatever the reason but somebody's kills and a machine that starts none.

        Raises:
            OutOfMemory, LocalError: there is no lower plan, and the last one has failed as often.
        """
        counted, self._num_oom_kills = self._num_oom_kills, self.num_oom_kills()
        by_kernel, round = counted != self._num_oom_kills, self.progress.round
        if reason == "killed" and self.progress.phase == "update":
            self._killed_in = [*(one for one in self._killed_in if one == round), round]
            if by_kernel or len(self._killed_in) >= KILLS_MAX:
                self._step_down("the kernel killed the process that updates")
            return
        if reason == "spawn" or (reason == "killed" and not by_kernel):
            return
        now = _Failure(reason, self.lasting())
        self._failures = [*(one for one in self._failures if one.lasting == now.lasting), now]
        if reason == "memory" and self._step_down("out of memory"):
            return
        if len(self._failures) >= FAILURES_MAX and not self._step_down("it failed again and again"):
            memory = any(one.reason in ("memory", "killed") for one in self._failures)
            raise (OutOfMemory if memory else LocalError)(
                f"the policy's process failed {len(self._failures)} times without progress",
                f"the plan is {self.name or 'unknown'}, and there is none below it; the last failure: {reason}",
                "its log says more (logs/ in the data directory); free memory of the device, or take a smaller model",
            )

    def _step_down(self, why: str) -> bool:
        """Take the next plan; False where there is none."""
        later = self.names[self.names.index(self.name) + 1 :] if self.name in self.names else ()
        if later:
            self._failures = []
            self.changed(PlanChanged(self.progress.round + 1, self.name, later[0], why))
        return bool(later)


class _Failure(NamedTuple):
    reason: str
    lasting: object


class Beginning(NamedTuple):
    """The plan to begin with, all plans in order, and the key under which a checkpoint remembers them."""

    plan: str = ""
    plans: tuple[str, ...] = ()
    key: str = ""


def begin(config: Config, model: ResolvedModel, placement: Placement, state: State, say: Say) -> Beginning:
    """The plans of a node that starts; empty where the model does not say how large it is.

    Args:
        state: of the newest checkpoint; a plan that an earlier run of the same work had stepped down to is taken up again.

    Raises:
        ConfigError: the GPU's memory cannot be asked for want of a package.
        OutOfMemory: no plan fits, and nothing has been downloaded yet.
    """
    if placement.update.startswith("cuda"):
        require_packages(config, say)
    say_toolchain(config, placement.generation, say)
    choice = memory_choice(config, model, placement)
    if choice is None:
        say(f"! memory     {model.name} does not tell its sizes: what it needs is not known")
        return Beginning()
    key = _plan_key(choice, config)
    if state.get("plan_key") == key and not choice.forced:
        choice = memory_choice(config, model, placement, last=state["plan"]) or choice
    say(start_line(choice))
    if larger := larger_round(config, model, placement, choice):
        say(larger.line)
    return Beginning(required(choice).plan.name, choice.names, key)


def larger_round(
    config: Config, model: ResolvedModel, placement: Placement, choice: Choice
) -> LargerRound | None:
    """A larger round to propose, where the card would idle with this one; never for the embedded policy."""
    shape = read_shape(model)
    if shape is None or config.policy.model == TINY:
        return None
    return LargerRound.of(config, shape, where_of(config, model, placement), choice)


def require_packages(config: Config, say: Say) -> None:
    """Say what a node on a GPU goes without. Raises ConfigError where the plan would be a guess."""
    lost = missing()
    if "nvidia-ml-py" in lost and config.policy.plan == "auto":
        raise ConfigError(
            f"a node on a GPU needs {', '.join(lost)}, which are not installed",
            f"without nvidia-ml-py {lost['nvidia-ml-py']}, and any memory plan would be a guess",
            f"{INSTALL}, or name a plan (--plan)",
        )
    for name, loss in lost.items():
        say(f"! packages   without {name}: {loss}; {INSTALL}")


def say_toolchain(config: Config, device: str, say: Say) -> None:
    """Say what vLLM would miss of the system where it would generate on a GPU."""
    if device.startswith("cuda") and _engine_of(config, device) == "vllm":
        what, fix = toolchain_trouble()
        if what:
            say(f"! compiler   vLLM will not start without {what}; {fix}")


def memory_choice(
    config: Config,
    model: ResolvedModel,
    placement: Placement,
    *,
    last: str | None = None,
    room: Room | None = None,
) -> Choice | None:
    """The memory plan of a node, before anything is downloaded; None where the model does not say how large it is.

    With two devices it is the update's: generation there has one plan only, and vLLM or torch says when that does not fit.

    Args:
        last: the plan that an earlier run of the same work had stepped down to.
        room: for tests; looked at when None.
    """
    shape = read_shape(model)
    if shape is None:
        return None
    device, where = placement.update, where_of(config, model, placement)
    can_sleep = where.engine == "vllm" and placement.kind == "shared" and device != "cpu"
    plans = ladder(config.update, device, can_sleep=can_sleep, optimizers=installed())
    priced = price(shape, Work.of(config), where, plans)
    host = NOT_ASKED if device == "cpu" or room else look("cpu")
    found = room or look(device)
    return choose(device, found, priced, config.policy.plan, last, shape.num_parameters, host)


def where_of(config: Config, model: ResolvedModel, placement: Placement) -> Where:
    """The updating device, and what runs there."""
    device = placement.update
    alone = placement.generation != device
    engine = _engine_of(config, placement.generation)
    return Where(
        device,
        engine,
        generates=not alone,
        apart=placement.kind == "split" and not alone,
        one_copy=engine == "vllm"
        and placement.kind == "shared"
        and model.config.get("model_type") in ONE_COPY_KINDS,
    )


def _engine_of(config: Config, device: str) -> str:
    """Which engine will generate on `device`, as far as can be told without loading it."""
    wanted = config.policy.engine
    if wanted != "auto":
        return wanted
    takes = device in ("cuda", "cuda:0") and vllm_build() == "cuda"
    return "vllm" if takes else "transformers"


def _plan_key(choice: Choice, config: Config) -> str:
    """A plan that an earlier run stepped down to holds for this key: the plan that the run began with, and its work."""
    work = repr((Work.of(config), config.update.micro_batch_tokens))
    digest = hashlib.sha256(work.encode()).hexdigest()[:16]
    return f"{choice.chosen.plan.name if choice.chosen else 'none'} {digest}"
