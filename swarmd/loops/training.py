"""Training: the learner's rounds. An update or a return to an earlier round counts once, although the learner's process may die.

The round's number, and everything else a restarted node needs to go on, is written into the checkpoint by the child that holds the
weights. A round counts from the moment at which that checkpoint's directory is renamed.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swarmd.errors import BY_NAME, ChildDied, LocalError
from swarmd.experience.rollouts import ScoredRollout
from swarmd.loops.hand_over import handed_over
from swarmd.loops.ports import MODEL_HANG_S, Caller, NowMs
from swarmd.loops.progress import Progress
from swarmd.metrics import Metrics
from swarmd.protocol.manifest import Manifest

log = logging.getLogger(__name__)
# A round that ends the child this often is given up; the node goes on with the next.
ATTEMPTS_MAX = 3


@dataclass
class Training:
    """The learner, its checkpoints, and the weights that generation gets of it.

    `bring` brings new weights to a generation child that does not share them. `remembered` is the canary's part of a checkpoint's
    state, and `resumed` hears what a learner that died under an update goes on from. `saved_round` is the newest round on disk,
    `handed_over` whether generation has the newest weights.
    """

    learner: Caller
    manifest: Manifest
    progress: Progress
    metrics: Metrics
    now_ms: NowMs
    checkpoint_every_rounds: int
    rounds_max: int | None
    bring: Callable[[], Awaitable[Any]] | None
    remembered: Callable[[], dict[str, Any]]
    resumed: Callable[[Mapping[str, Any]], None]
    saved_round: int | None = None
    handed_over: bool = True

    async def step(self, training_set: Sequence[ScoredRollout]) -> dict[str, Any]:
        """The next round: one update on these rollouts.

        Raises:
            LocalError: the round failed; the policy is as it was.
        """
        number = self.progress.round + 1
        stats = await self._counted(
            "update",
            number,
            died=self._update_died,
            rollouts=[rollout.to_wire() for rollout in training_set],
            checkpoint=number % self.checkpoint_every_rounds == 0 or number == self.rounds_max,
        )
        await self._count(number, stats)
        return stats

    async def go_back(self, to_round: int | None) -> dict[str, Any]:
        """The next round: the policy of an earlier one, on disk at once.

        Raises:
            StateError: there is no such checkpoint any more.
            LocalError: the round failed; the policy is as it was.
        """
        number = self.progress.round + 1
        answer = await self._counted("rollback", number, died=lambda info: None, to_round=to_round)
        await self._count(number, answer)
        return answer

    async def save(self) -> bool:
        """Write a checkpoint of the round as it is, unless there is one; whether there is."""
        number = self.progress.round
        if self.saved_round == number:
            return True
        try:
            answer = await self._call("update", number, rollouts=[], checkpoint=True)
        except LocalError as error:
            self.progress.shown.checkpoint_error = error
            return False
        self._count_checkpoint(number, answer)
        return self.saved_round == number

    async def save_last(self) -> None:
        """Write a checkpoint of the last round, where checkpoints are written less often than every round."""
        if self.checkpoint_every_rounds > 1 and self.progress.history.rounds:
            await self.save()

    async def hand_over(self) -> None:
        """Give generation the newest weights. Weights that cannot be handed over now are superseded by the next round's."""
        self.handed_over = await handed_over(self.bring, self.metrics)

    async def resumed_before(self, version: int) -> Mapping[str, Any] | None:
        """What a learner that has lost this policy version went on from; None where the learner has not lost it.

        Raises:
            LocalError: the learner does not answer.
        """
        now = await self.learner.call("info", within_s=MODEL_HANG_S)
        return await self.learner.wait_ready() if now["policy_version"] < version else None

    async def _counted(
        self, op: str, number: int, *, died: Callable[[Mapping[str, Any]], None], **args: Any
    ) -> dict[str, Any]:
        """Repeat an operation whose child died, unless the child's checkpoint shows that the operation was done."""
        for attempt in range(ATTEMPTS_MAX):
            try:
                return await self._call(op, number, **args)
            except ChildDied as error:
                log.warning(
                    "update child lost in round %d (%s, attempt %d): %s", number, op, attempt + 1, error
                )
                info = await self.learner.wait_ready()
                died(info)
                if info["state"].get("round") == number:
                    return {"policy_version": info["policy_version"], "checkpoint": info["resumed_from"]}
        raise LocalError(f"the update child died {ATTEMPTS_MAX} times in round {number} ({op})")

    async def _call(self, op: str, number: int, **args: Any) -> dict[str, Any]:
        state = self._state(number)
        return dict(await self.learner.call(op, round=number, state=state, within_s=MODEL_HANG_S, **args))

    def _update_died(self, info: Mapping[str, Any]) -> None:
        self.progress.policy_version = info["policy_version"]
        self.resumed(info)

    def _state(self, number: int) -> dict[str, Any]:
        """What a restarted node goes on with, beside weights and optimizer; `Progress.resume` takes it back."""
        return {
            **self.remembered(),
            "round": number,
            "manifest": self.manifest.digest.hex(),
            **self.progress.history.to_state(),
        }

    async def _count(self, number: int, answer: Mapping[str, Any]) -> None:
        """The round is done."""
        self.progress.round, self.progress.policy_version = number, answer["policy_version"]
        self._count_checkpoint(number, answer)
        await self.hand_over()

    def _count_checkpoint(self, number: int, answer: Mapping[str, Any]) -> None:
        if answer.get("checkpoint"):
            self.metrics.checkpoint_last.set(self.now_ms() / 1000)
            self.metrics.checkpoint_saves.labels("ok").inc()
            self.progress.shown.checkpoint_error, self.saved_round = None, number
        elif failure := answer.get("checkpoint_error"):
            self.metrics.checkpoint_saves.labels("failed").inc()
            kind = BY_NAME.get(failure["kind"], LocalError)
            self.progress.shown.checkpoint_error = kind(failure["what"], failure["why"], failure["fix"])
            log.warning("round %d has no checkpoint: %s", number, self.progress.shown.checkpoint_error)
