"""The learner: the policy process that holds the weights, updates them and writes the checkpoints.

A round counts from the moment at which its checkpoint is on disk. A process that dies is asked again, unless it had come so far.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import trio

from swarmd.clients.generator import HAND_OVER_S, HANG_S, Generator
from swarmd.clients.policy import PolicyInfo, PolicyOps, Published, RolledBack, Saved, State, Updated
from swarmd.clients.worker import Worker, ask
from swarmd.errors import ChildDied, LocalError
from swarmd.experience.rollouts import ScoredRollout
from swarmd.processes.values import typed

log = logging.getLogger(__name__)
# A round that ends the process this often is given up; the node goes on with the next.
ATTEMPTS_MAX = 3
# Weights that generation did not take are tried again: a process that died needs a second to be back.
RETRY_S = 1.0

Answer = TypeVar("Answer", Updated, RolledBack)
Resumed = Callable[[PolicyInfo], None]


@dataclass(frozen=True)
class Learner:
    """Calls a process that updates. All operations raise LocalError when it died, does not answer, or cannot do it."""

    worker: Worker

    async def update(
        self,
        rollouts: Sequence[ScoredRollout],
        round: int,
        *,
        state: Callable[[], State],
        checkpoint: bool,
        resumed: Resumed,
    ) -> Updated:
        """One round's update. `resumed` hears what a process that died goes on from, before `state` is asked again."""

        async def attempt() -> Updated:
            return await ask(
                self.worker,
                HANG_S,
                PolicyOps.update,
                rollouts=rollouts,
                round=round,
                state=state(),
                checkpoint=checkpoint,
            )

        return await self._once(round, attempt, resumed, Updated)

    async def rollback(self, to_round: int | None, round: int, *, state: Callable[[], State]) -> RolledBack:
        """Go back to an earlier round's checkpoint, as a round of its own. Raises StateError when that cannot be used."""

        async def attempt() -> RolledBack:
            return await ask(
                self.worker, HANG_S, PolicyOps.rollback, to_round=to_round, round=round, state=state()
            )

        return await self._once(round, attempt, lambda info: None, RolledBack)

    async def save(self, round: int, state: State) -> Saved:
        """A checkpoint of a round that has none."""
        rollouts: list[ScoredRollout] = []
        updated = await ask(
            self.worker,
            HANG_S,
            PolicyOps.update,
            rollouts=rollouts,
            round=round,
            state=state,
            checkpoint=True,
        )
        return updated.saved

    async def publish_weights(self, directory: str) -> Published:
        """Write the newest weights to a file in `directory`."""
        return await ask(self.worker, HAND_OVER_S, PolicyOps.publish_weights, directory=directory)

    async def about(self) -> PolicyInfo:
        """The process as it is now."""
        return await ask(self.worker, HANG_S, PolicyOps.about)

    async def resumed(self) -> PolicyInfo:
        """The newest process, with what it went on from."""
        return typed(PolicyInfo, await self.worker.wait_ready())

    async def _once(
        self,
        round: int,
        attempt: Callable[[], Awaitable[Answer]],
        resumed: Resumed,
        answer: Callable[[int, Saved], Answer],
    ) -> Answer:
        """Repeat an attempt whose process died, unless that process's checkpoint shows that the attempt had succeeded."""
        for number in range(1, ATTEMPTS_MAX + 1):
            try:
                return await attempt()
            except ChildDied as error:
                log.warning("the update process was lost in round %d (attempt %d): %s", round, number, error)
                info = await self.resumed()
                resumed(info)
                if info.state.get("round") == round:
                    return answer(info.policy_version, Saved(info.resumed_from))
        raise LocalError(f"the update process died {ATTEMPTS_MAX} times in round {round}")


@dataclass(frozen=True)
class HandOver:
    """Brings new weights from the learner to a generator of its own process, through a file in `directory`."""

    learner: Learner
    generator: Generator
    directory: str

    async def __call__(self) -> bool:
        """Whether the generator has the newest weights. It gets newer ones a round later."""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                await self.generator.load_weights(await self.learner.publish_weights(self.directory))
                return True
            except LocalError as error:
                log.warning("new weights were not handed over (attempt %d): %s", attempt, error)
                await trio.sleep(RETRY_S)
        return False
