"""Training: the learner's rounds. An update or a return to an earlier round counts once, although the learner's process may die.

The round's number, and everything else a restarted node needs to go on, is written into the checkpoint by the child that holds the
weights. A round is safe once its checkpoint, or a later round's, has had its directory renamed. A child that dies takes the rounds
after its newest checkpoint with it: the count of rounds goes back with the weights, and the operator is told.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import trio

from swarmd.clients.learner import Learner, Turn
from swarmd.clients.policy import PolicyInfo, RolledBack, Save, Saved, State, Updated
from swarmd.errors import LocalError
from swarmd.experience.rollouts import ScoredRollout
from swarmd.loops.pace import Pace
from swarmd.loops.ports import NowMs, Say
from swarmd.loops.progress import Progress
from swarmd.metrics import Metrics

log = logging.getLogger(__name__)


class Watcher(Protocol):
    """Whoever watches over the policy, and has a part in its checkpoints."""

    def to_state(self) -> State:
        """Its part of a checkpoint's state."""

    def resumed(self, info: PolicyInfo) -> None:
        """The learner died, and goes on from what `info` says."""

    def unsaved(self, round: int) -> None:
        """A round's checkpoint was begun, and failed."""


@dataclass
class Training:
    """The learner, its checkpoints, and the weights that generation gets of it.

    `bring` brings new weights to a generation child that does not share them; `handed_over` says whether generation has the
    newest ones. `of_node` is what a checkpoint's state keeps of the node itself: whose it is.
    """

    learner: Learner
    of_node: Callable[[], State]
    progress: Progress
    metrics: Metrics
    now_ms: NowMs
    say: Say
    pace: Pace
    rounds_max: int | None
    bring: Callable[[], Awaitable[bool]] | None
    watcher: Watcher
    handed_over: bool = True

    async def step(self, training_set: Sequence[ScoredRollout]) -> Updated:
        """The next round: one update on these rollouts.

        Raises:
            LocalError: the round failed; the policy is as it was.
        """
        updated = await self.learner.update(training_set, self._next)
        await self._count(updated)
        return updated

    async def go_back(self, to_round: int | None) -> RolledBack:
        """The next round: the policy of an earlier one, on disk at once.

        Raises:
            StateError: there is no such checkpoint any more.
            LocalError: the round failed; the policy is as it was.
        """
        self.pace.begun(trio.current_time())
        answer = await self.learner.rollback(to_round, lambda: self._turn(self.progress.round + 1, "now"))
        await self._count(answer)
        return answer

    async def save_good(self) -> bool:
        """A checkpoint of a round that the canary found good, as soon as its turn comes; whether there is one, or will be."""
        number, now_s = self.progress.round, trio.current_time()
        if number in (self.pace.saved_round, self.pace.saving_round):
            self.pace.good_s = now_s
            return True
        if self.pace.saving_round is not None or not self.pace.good_due(now_s):
            return False
        return await self._save("background" if self.pace.background else "now", good=True)

    async def save(self) -> bool:
        """A checkpoint of the round as it is, on disk at once, unless it has one; whether it has."""
        return self.pace.saved_round == self.progress.round or await self._save("now")

    async def save_last(self) -> None:
        """A checkpoint of the last round, unless it has one; a round whose checkpoint failed gets another try."""
        if self.progress.history.rounds:
            await self.save()

    async def hand_over(self) -> None:
        """Give generation the newest weights. Weights that cannot be handed over now are superseded by the next round's."""
        if self.bring is None:
            return
        began_s = trio.current_time()
        self.handed_over = await self.bring()
        if self.handed_over:
            self.metrics.weight_sync_seconds.observe(trio.current_time() - began_s)

    async def resumed_before(self, version: int) -> PolicyInfo | None:
        """The beginning of a learner that has lost this policy version; None where the learner has not lost it.

        Raises:
            LocalError: the learner does not answer.
        """
        now = await self.learner.about()
        if now.policy_version >= version:
            return None
        self._went_back(now)
        return now

    def _next(self) -> Turn:
        """The next round as the learner is asked for it; again after each death of the learner, which may lose rounds."""
        number, now_s = self.progress.round + 1, trio.current_time()
        save: Save = "no"
        if number == self.rounds_max:
            save = "now"
        elif self.pace.saving_round is None and self.pace.due(number, now_s):
            save = "background" if self.pace.background else "now"
            self._begun(number, save, now_s)
        return self._turn(number, save)

    def _turn(self, number: int, save: Save) -> Turn:
        return Turn(number, self.progress.policy_version, self._state(number), save, self._went_back)

    async def _save(self, save: Save, *, good: bool = False) -> bool:
        number = self.progress.round
        self._begun(number, save, trio.current_time(), good=good)
        try:
            saved = await self.learner.save(self._turn(number, save))
        except LocalError as error:
            self.pace.saving_round = None
            self.progress.shown.checkpoint_error = error
            return False
        self._count_checkpoint(saved)
        return number in (self.pace.saved_round, self.pace.saving_round)

    def _begun(self, number: int, save: Save, now_s: float, *, good: bool = False) -> None:
        self.pace.begun(now_s, good=good)
        self.pace.saving_round = number if save == "background" else self.pace.saving_round

    def _went_back(self, info: PolicyInfo) -> None:
        """The learner died, and goes on from its newest checkpoint: so does the count of rounds."""
        self.pace.saving_round = None
        self.progress.policy_version = info.policy_version
        resumed_round = int(info.state.get("round", 0))
        if (num_lost := self.progress.round - resumed_round) > 0:
            self.progress.round = resumed_round
            self.metrics.rounds_lost.inc(num_lost)
            self.say(lost_line(resumed_round, num_lost, "the process that updates died"))
        self.watcher.resumed(info)

    def _state(self, number: int) -> State:
        """A restarted node goes on with this, beside weights and optimizer; `Progress.resume` takes it back."""
        return {
            **self.watcher.to_state(),
            "round": number,
            **self.of_node(),
            **self.progress.history.to_state(),
        }

    async def _count(self, answer: Updated | RolledBack) -> None:
        self.progress.round += 1
        self.progress.policy_version = answer.policy_version
        self._count_checkpoint(answer.saved)
        await self.hand_over()

    def _count_checkpoint(self, saved: Saved) -> None:
        if saved.round is None:
            return
        if self.pace.saving_round is not None and saved.round >= self.pace.saving_round:
            self.pace.saving_round = None
        if saved.checkpoint:
            self.metrics.checkpoint_last.set(self.now_ms() / 1000)
            self.metrics.checkpoint_saves.labels("ok").inc()
            self.metrics.checkpoint_bytes.inc(saved.size_bytes)
            self.metrics.checkpoint_held.inc(saved.seconds_held or 0.0)
            self.progress.shown.checkpoint_error, self.pace.saved_round = None, saved.round
        elif saved.failure:
            self.metrics.checkpoint_saves.labels("failed").inc()
            self.progress.shown.checkpoint_error = saved.failure.error()
            self.watcher.unsaved(saved.round)
            log.warning("round %d has no checkpoint: %s", saved.round, self.progress.shown.checkpoint_error)


def lost_line(resumed_round: int, num_lost: int, why: str) -> str:
    """What a person is told of lost rounds."""
    rounds = (
        f"round {resumed_round + 1}" if num_lost == 1 else f"{num_lost} rounds after round {resumed_round}"
    )
    return f"! lost       {rounds}: {why}, and the newest checkpoint is of round {resumed_round}"
