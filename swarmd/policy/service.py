"""The policy process: generation, the update, or both on one model; plain blocking code, served by `processes.child`.

With both roles the engine samples from the very tensors that the learner changes, or gets the new ones straight from memory
before it next generates. Nothing that came from a peer is decoded here but text, and no failure of a checkpoint undoes an update.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from transformers import PreTrainedModel

from swarmd.clients.events import CheckpointSkipped, OptimizerRestarted, PolicyEvent
from swarmd.clients.policy import (
    Generated,
    PolicyInfo,
    PolicyOps,
    Published,
    RolledBack,
    Save,
    Saved,
    State,
    Updated,
)
from swarmd.config import Config
from swarmd.errors import ChildDied, StateError, SwarmdError
from swarmd.experience.rollouts import ScoredRollout
from swarmd.policy.answers import answers_of
from swarmd.policy.faults import loses_device
from swarmd.policy.generation.choose import open_engine
from swarmd.policy.generation.engine import Engine, Sampling
from swarmd.policy.generation.shared_weights import load_beside, policy_in
from swarmd.policy.model.loading import context_tokens_max, load_tokeniser
from swarmd.policy.model.tokenise import Tokeniser
from swarmd.policy.planned import PlannedLearner, plans_of
from swarmd.policy.plans.ladder import Execution
from swarmd.policy.state import checkpoints, weights
from swarmd.policy.state.checkpoints import Content
from swarmd.policy.state.resume import load_checkpoint, newest_of
from swarmd.policy.state.saving import Saving
from swarmd.policy.state.shapes import ModelShapes
from swarmd.policy.training_set import token_rollouts
from swarmd.policy.update import mismatch
from swarmd.policy.update.floor import Floor
from swarmd.policy.update.learner import Learner
from swarmd.policy.update.parallel import learner_on
from swarmd.processes.ends import end_process


class PolicyService(PolicyOps):
    """Operations on one policy, called one at a time.

    Args:
        roles: `generate`, `update`, or both.
        config: the node's `Config`, in JSON.
        checkpoints_dir: None for a node that keeps no checkpoints.
        published_dir: where weights are handed over; a process that only generates begins with those that lie there.
        devices: those that the update spreads over, `device` the first; `device` alone when empty.
        plan: the memory plan to begin with.
        plans: all that this device has; see `planned.plans_of`.
        plan_key: what a checkpoint keeps beside the plan; without a key it keeps neither.
    """

    ruined_by = staticmethod(loses_device)

    def __init__(
        self,
        emit: Callable[[PolicyEvent], None],
        *,
        roles: Sequence[str],
        model_dir: str,
        device: str,
        config: str,
        checkpoints_dir: str | None,
        published_dir: str | None = None,
        devices: Sequence[str] = (),
        plan: str = "auto",
        plans: Sequence[str] = (),
        plan_key: str = "",
    ) -> None:
        self._emit = emit
        self._roles = frozenset(roles)
        self._model_dir = Path(model_dir)
        self._device = device
        self._devices = tuple(devices) or (device,)
        self._config = Config.model_validate_json(config)
        self._model_name = self._config.policy.model
        self._plan, self._plan_key = plan, plan_key
        self._plans = plans_of(self._config, plans, device)
        self._checkpoints = Path(checkpoints_dir) if checkpoints_dir else None
        self._published = Path(published_dir) if published_dir else None
        self._saving = Saving(self._checkpoints, self._config.checkpoint.keep) if self._checkpoints else None
        self._release = self._saving.release if self._saving else lambda: None
        self._version = 0
        self._model: PreTrainedModel | None = None
        self._tokeniser: Tokeniser
        self._engine: Engine | None = None
        self._engine_note = ""
        # The version of the weights that an engine keeps; None where they are not the present ones.
        self._engine_version: int | None = 0
        self._learner: PlannedLearner | None = None
        self._floor = Floor(self._config.update.external_logp_min)
        self._found = checkpoints.Found()

    def start(self) -> PolicyInfo:
        """Load the model, then the newest good checkpoint over it.

        Raises:
            ConfigError: the engine asked for cannot be used.
            ModelUnavailable, NoDevice, OutOfMemory, StateError: see `loading` and `resume`.
        """
        if threads := self._config.policy.threads:
            torch.set_num_threads(threads)
        self._tokeniser = load_tokeniser(self._model_dir)
        if "generate" in self._roles:
            self._engine, self._engine_note = open_engine(
                self._config.policy,
                device=self._device,
                model_dir=self._model_dir,
                tokeniser=self._tokeniser,
                model=self._live_model,
                can_sleep=any(plan.how.engine_sleeps for plan in self._plans),
                can_share="update" in self._roles,
            )
        if "update" in self._roles:
            own_forward = self._engine is None or self._engine.own_forward  # None: in another process
            self._learner = PlannedLearner(
                self._build_learner,
                mismatch.resolve(self._config, own_forward=own_forward),
                plans=self._plans,
                name=self._plan,
                emit=self._emit,
                sleep=self._put_engine_to_sleep,
                before_change=self._release,
            )
        if self._checkpoints:
            self._found = self._resume(self._checkpoints)
        if self._learner is None and self._published and (newest := weights.newest_version(self._published)):
            with contextlib.suppress(StateError):  # superseded meanwhile: the next version is on its way
                self._take(*newest)
        return self.about()

    def about(self) -> PolicyInfo:
        return PolicyInfo(
            model=self._model_name,
            num_parameters=ModelShapes.of_folder(self._model_dir).num_parameters,
            policy_version=self._version,
            device=self._device,
            engine=self._engine.name if self._engine else "none",
            engine_version=self._engine.version if self._engine else "",
            engine_note=self._engine_note,
            tokens_max=self._config.policy.tokens_max,
            mismatch=self._learner.learner.config.update.mismatch if self._learner else None,
            plan=self._learner.plan.name if self._learner else "",
            resumed_from=self._found.path.name if self._found.path else None,
            state=self._found.state,
        )

    def generate(
        self, prompts: Sequence[str], num_completions: int, temperature: float, tokens_max: int, seed: int
    ) -> Generated:
        """See `PolicyOps`. Raises OutOfMemory when not even a single completion fits."""
        if self._engine is None:
            raise SwarmdError("this policy process does not generate", f"its roles are {sorted(self._roles)}")
        started = time.perf_counter()
        sync_s = self._sync_engine(self._engine)
        prompt_ids = [self._tokeniser.prompt_ids(prompt) for prompt in prompts]
        sampling = Sampling(num_completions, temperature, tokens_max, seed)
        with policy_in(self._engine, self._model, self._release):
            sampled_RG = self._engine.generate(prompt_ids, sampling)
        return Generated(
            policy_version=self._version,
            completions_RG=answers_of(self._tokeniser, sampled_RG),
            num_prompt_tokens=sum(map(len, prompt_ids)),
            seconds=time.perf_counter() - started,
            seconds_weight_sync=sync_s,
        )

    def update(
        self,
        rollouts: Sequence[ScoredRollout],
        round: int,
        state: State,
        save: Save,
        policy_version: int | None = None,
    ) -> Updated:
        """See `PolicyOps`. The answer tells of a checkpoint that could not be written: the update has happened all the same.

        Raises:
            ChildDied: this process is not at that policy version.
            OutOfMemory: the update fits under no memory plan; the weights are as they were.
        """
        learner, started = self._updating(), time.perf_counter()
        if policy_version not in (None, self._version):
            gone = ChildDied(f"policy version {policy_version} is asked for, and {self._version} is here")
            if self._version != self._found.policy_version:  # its rounds since the start are nobody's
                end_process(gone)
            raise gone
        training_set = token_rollouts(
            rollouts, self._tokeniser, self._config, context_tokens_max(self._live_model().config)
        )
        self._floor.observe(training_set)
        try:
            stats = learner.update(training_set, round, self._floor.value)
        except ChildDied as error:  # of a rank: the round may be half done, and only the checkpoint is sure
            end_process(error)
        if stats.num_steps:
            self._version += 1
        saved = self._save(round, state, save)
        return Updated(self._version, saved, stats, learner.plan.name, time.perf_counter() - started)

    def rollback(self, to_round: int | None, round: int, state: State) -> RolledBack:
        """See `PolicyOps`. Until the new checkpoint is on disk, a restart goes on as if nobody had asked for this.

        Raises:
            StateError: that checkpoint is not there, damaged, or another model's; nothing has changed.
        """
        learner = self._updating().learner
        if self._saving is None or self._checkpoints is None or to_round is None:
            raise StateError("there is nothing to go back to", "this policy keeps no checkpoints")
        self._saving.finish()
        found = checkpoints.of_round(self._checkpoints, to_round)
        if found.path is None or found.model != self._model_name:
            raise StateError(f"the checkpoint of round {to_round} is of model {found.model}")
        lost = load_checkpoint(found.path, self._live_model(), learner)
        self._version, self._engine_version = self._version + 1, None
        return RolledBack(self._version, self._save(round, state, "now"), lost)

    def publish_weights(self, directory: str) -> Published:
        path = weights.save_weights(self._live_model(), Path(directory), self._version)
        return Published(str(path), self._version)

    def load_weights(self, path: str, policy_version: int) -> None:
        self._take(Path(path), policy_version)

    def _live_model(self) -> PreTrainedModel:
        """The model, loaded when it is first needed: a process that only generates, with vLLM, never loads one."""
        if self._model is None:
            self._model, copied = load_beside(self._engine, self._model_dir, self._device)
            self._engine_note = self._engine_note or copied
        return self._model

    def _take(self, path: Path, policy_version: int) -> None:
        """Weights from a file, into the live model, or where there is none straight into the engine."""
        if self._model is not None:
            weights.load_weights(self._model, path)
            self._engine_version = None
        elif self._engine is not None:
            self._engine.load_weights(path, policy_version)
            self._engine_version = policy_version
        self._version = policy_version
        if self._learner:
            self._learner.learner.weights_changed()

    def _sync_engine(self, engine: Engine) -> float:
        """Bring the live model's weights to an engine that keeps its own, unless it has them; seconds that took."""
        if not engine.keeps_weights or self._engine_version == self._version:
            return 0.0
        started = time.perf_counter()
        engine.load_weights(weights.named_tensors(self._live_model()), self._version)
        self._engine_version = self._version
        return time.perf_counter() - started

    def _build_learner(self, config: Config, how: Execution) -> Learner:
        return learner_on(self._devices, self._live_model(), config, how, model_dir=self._model_dir)

    def _put_engine_to_sleep(self) -> None:
        if self._engine and self._engine.sleep():
            self._engine_version = None

    def _resume(self, directory: Path) -> checkpoints.Found:
        found = newest_of(directory, self._model_name, writes=self._learner is not None)
        for line in found.skipped:
            self._emit(CheckpointSkipped(line))
        if found.path is not None and self._learner is None:
            self._take(found.path / checkpoints.MODEL_FILE, found.policy_version)
        elif found.path is not None and self._learner is not None:
            if lost := load_checkpoint(found.path, self._live_model(), self._learner.learner):
                self._emit(OptimizerRestarted(lost))
            self._version, self._engine_version = found.policy_version, None
        return found

    def _save(self, round: int, state: State, save: Save) -> Saved:
        saving = self._saving
        return saving.save(round, save, lambda: self._content(round, state)) if saving else Saved()

    def _content(self, round: int, state: State) -> Content:
        planned = self._updating()
        plan = {"plan": planned.plan.name, "plan_key": self._plan_key} if self._plan_key else {}
        tensors = weights.named_tensors(self._live_model()), planned.learner.optimizer_tensors()
        return Content(round, self._version, self._model_name, *tensors, {**state, **plan})

    def _updating(self) -> PlannedLearner:
        if self._learner is None:
            raise SwarmdError("this policy process does not update", f"its roles are {sorted(self._roles)}")
        return self._learner
