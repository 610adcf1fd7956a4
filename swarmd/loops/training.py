"""Training: the learner's rounds. An update or a return to an earlier round counts once, although the learner's process may die.

The round's number, and everything else a restarted node needs to go on, is written into the checkpoint by the child that holds the
weights. A round counts from the moment at which that checkpoint's directory is renamed.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

import trio

from swarmd.clients.learner import Learner
from swarmd.clients.policy import PolicyInfo, RolledBack, Saved, State, Updated
from swarmd.errors import LocalError
from swarmd.experience.rollouts import ScoredRollout
from swarmd.loops.ports import NowMs
from swarmd.loops.progress import Progress
from swarmd.metrics import Metrics
from swarmd.protocol.manifest import Manifest

log = logging.getLogger(__name__)


@dataclass
class Training:
    """The learner, its checkpoints, and the weights that generation gets of it.

    `bring` brings new weights to a generation child that does not share them. `remembered` is the canary's part of a checkpoint's
    state, and `resumed` hears what a learner that died under an update goes on from. `saved_round` is the newest round on disk,
    `handed_over` whether generation has the newest weights.
    """

    learner: Learner
    manifest: Manifest
    progress: Progress
    metrics: Metrics
    now_ms: NowMs
    checkpoint_every_rounds: int
    rounds_max: int | None
    bring: Callable[[], Awaitable[bool]] | None
    remembered: Callable[[], State]
    resumed: Callable[[PolicyInfo], None]
    saved_round: int | None = None
    handed_over: bool = True

    async def step(self, training_set: Sequence[ScoredRollout]) -> Updated:
        """The next round: one update on these rollouts.

        Raises:
            LocalError: the round failed; the policy is as it was.
        """
        number = self.progress.round + 1
        updated = await self.learner.update(
            training_set,
            number,
            state=partial(self._state, number),
            checkpoint=number % self.checkpoint_every_rounds == 0 or number == self.rounds_max,
            resumed=self._update_died,
        )
        await self._count(number, updated)
        return updated

    async def go_back(self, to_round: int | None) -> RolledBack:
        """The next round: the policy of an earlier one, on disk at once.

        Raises:
            StateError: there is no such checkpoint any more.
            LocalError: the round failed; the policy is as it was.
        """
        number = self.progress.round + 1
        answer = await self.learner.rollback(to_round, number, state=partial(self._state, number))
        await self._count(number, answer)
        return answer

    async def save(self) -> bool:
        """Write a checkpoint of the round as it is, unless there is one; whether there is."""
        number = self.progress.round
        if self.saved_round == number:
            return True
        try:
            saved = await self.learner.save(number, self._state(number))
        except LocalError as error:
            self.progress.shown.checkpoint_error = error
            return False
        self._count_checkpoint(number, saved)
        return self.saved_round == number

    async def save_last(self) -> None:
        """Write a checkpoint of the last round, where checkpoints are written less often than every round."""
        if self.checkpoint_every_rounds > 1 and self.progress.history.rounds:
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
        return now if now.policy_version < version else None

    def _update_died(self, info: PolicyInfo) -> None:
        self.progress.policy_version = info.policy_version
        self.resumed(info)

    def _state(self, number: int) -> State:
        """A restarted node goes on with this, beside weights and optimizer; `Progress.resume` takes it back."""
        return {
            **self.remembered(),
            "round": number,
            "manifest": self.manifest.digest.hex(),
            **self.progress.history.to_state(),
        }

    async def _count(self, number: int, answer: Updated | RolledBack) -> None:
        self.progress.round, self.progress.policy_version = number, answer.policy_version
        self._count_checkpoint(number, answer.saved)
        await self.hand_over()

    def _count_checkpoint(self, number: int, saved: Saved) -> None:
        if saved.checkpoint:
            self.metrics.checkpoint_last.set(self.now_ms() / 1000)
            self.metrics.checkpoint_saves.labels("ok").inc()
            self.progress.shown.checkpoint_error, self.saved_round = None, number
        elif saved.failure:
            self.metrics.checkpoint_saves.labels("failed").inc()
            self.progress.shown.checkpoint_error = saved.failure.error()
            log.warning("round %d has no checkpoint: %s", number, self.progress.shown.checkpoint_error)
