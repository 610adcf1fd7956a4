"""The learner under a memory plan: promises that running out of memory costs a plan, or a round, but never a weight.

An update that does not fit is tried again under the next plan. Where the update fits under no plan, the first one is taken up
again and the round is lost.
"""

from collections.abc import Callable, Sequence

from torch import Tensor

from swarmd.clients.events import PlanChanged, SlowPath
from swarmd.clients.update_stats import UpdateStats
from swarmd.config import Config
from swarmd.errors import ConfigError, OutOfMemory
from swarmd.policy.memory import free_memory, is_out_of_memory
from swarmd.policy.plans.ladder import Execution, Plan, after, at_least, ladder
from swarmd.policy.update.floor import Floors
from swarmd.policy.update.learner import NO_FLOORS, Learner
from swarmd.policy.update.packing import TokenRollout

Emit = Callable[[PlanChanged | SlowPath], None]


def plans_of(config: Config, names: Sequence[str], device: str) -> tuple[Plan, ...]:
    """The plans that the daemon named, or where it named none all that need nothing of the engine."""
    plans = ladder(config.update, device, can_sleep="time-share" in names)
    return tuple(plan for plan in plans if not names or plan.name in names)


class PlannedLearner:
    """A learner that is rebuilt as the plan asks.

    Args:
        build: makes a learner on the policy's model, whose weights outlive every learner.
        name: of the plan to begin with; one that `plans` lack gives way to the next in order.
        emit: told of each change of plan, and once of each reason for a slow update.
        sleep: puts the engine to sleep, for plans that ask for it.
        before_change: called before weights or moments change: somebody may still be reading them.
    """

    def __init__(
        self,
        build: Callable[[Config, Execution], Learner],
        config: Config,
        *,
        plans: Sequence[Plan],
        name: str,
        emit: Emit,
        sleep: Callable[[], None],
        before_change: Callable[[], None],
    ) -> None:
        self._build, self._config, self._before_change = build, config, before_change
        self._plans, self._emit, self._sleep = tuple(plans), emit, sleep
        self._slow_because = ""  # told already
        self.plan = at_least(self._plans, name)
        self._learner: Learner | None = self._built(self.plan.how)

    @property
    def learner(self) -> Learner:
        """The learner of the plan in force, built anew where the last one could not be."""
        if self._learner is None:
            self._rebuild(self.plan.how, {})
        assert self._learner is not None
        return self._learner

    def update(
        self, training_set: Sequence[TokenRollout], round: int, floors: Floors = NO_FLOORS
    ) -> UpdateStats:
        """`Learner.update`, under this plan or a later one.

        Raises:
            OutOfMemory: it fits under none. Weights and plan are as they were; moments too, unless a plan with another
                optimizer was tried.
        """
        first, found = self.plan, self._attempt(training_set, floors)
        while isinstance(found, str):
            if not self._step_down(round, found):
                self._give_up(first, round, found)
            found = self._attempt(training_set, floors)
        if found.skipped == "oom":  # after the first of several steps, which cannot be taken twice
            self._step_down(round, "a later step of the round did not fit")
        if found.slow_cost is not None and found.self_check != self._slow_because:
            self._slow_because = found.self_check
            self._emit(SlowPath(found.slow_cost, found.self_check))
        return found

    def _attempt(self, training_set: Sequence[TokenRollout], floors: Floors) -> UpdateStats | str:
        """The stats, or why memory ran out. Only a text: the exception holds the tensors of its frames."""
        try:
            if self.plan.how.engine_sleeps:
                self._sleep()
            return self.learner.update(training_set, floors)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return str(error).partition("\n")[0] or type(error).__name__

    def _step_down(self, round: int, why: str) -> bool:
        """Go on under the next plan that can be had; False when there is none."""
        name = self.plan.name
        while later := after(self._plans, name):
            free_memory()
            name = later.name
            if not (trouble := self._use(later)):
                return self._changed(round, later, why)
            why = trouble
        return False

    def _give_up(self, first: Plan, round: int, why: str) -> None:
        free_memory()
        if self.plan is not first:
            self._use(first)
            self._changed(round, first, "no plan helped")
        raise OutOfMemory(
            f"the update of round {round} does not fit in memory under any plan",
            why,
            "lower update.micro_batch_tokens or policy.tokens_max, or take a smaller model",
        )

    def _changed(self, round: int, plan: Plan, why: str) -> bool:
        self._emit(PlanChanged(round, self.plan.name, plan.name, why))
        self.plan = plan
        return True

    def _use(self, plan: Plan) -> str:
        """Build the learner of `plan`; why it cannot be had, where it cannot, and then the old one is rebuilt at the next try.

        Moments stay where the optimizer stays, masters wherever there are any on both sides; both wait on the host meanwhile.
        """
        before = self.learner.how
        if plan.how.optimizer == before.optimizer:
            self.learner.use(plan.how)
            return ""
        carried = {
            key: kept.cpu()
            for key, kept in self.learner.optimizer_tensors().items()
            if key.startswith("master/")
        }
        self._before_change()
        self.learner.release()
        try:
            self._rebuild(plan.how, carried)
        except (ConfigError, OutOfMemory, RuntimeError, MemoryError) as error:
            if not isinstance(error, ConfigError | OutOfMemory) and not is_out_of_memory(error):
                raise
            trouble = f"{plan.name} cannot be had: {str(error).partition(chr(10))[0]}"
        else:
            return ""
        free_memory()
        self._rebuild(before, carried)
        return trouble

    def _built(self, how: Execution) -> Learner:
        learner = self._build(self._config, how)
        learner.before_step = self._before_change
        return learner

    def _rebuild(self, how: Execution, masters: dict[str, Tensor]) -> None:
        self._learner = None
        free_memory()
        learner = self._built(how)
        learner.weights_changed()  # they are no longer those of the model's folder
        if masters and masters.keys() <= learner.optimizer_tensors().keys():
            learner.load_optimizer_tensors(masters)
        self._learner = learner
