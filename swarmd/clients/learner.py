"""The learner: the policy process that holds the weights, updates them and writes the checkpoints.

A process that dies is asked again, unless its newest checkpoint is the round's. Rounds after that checkpoint are lost with it.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import trio

from swarmd.clients.generator import HAND_OVER_S, Generator
from swarmd.clients.patience import Patience
from swarmd.clients.policy import (
    PolicyInfo,
    PolicyOps,
    Published,
    RolledBack,
    Save,
    Saved,
    State,
    Updated,
)
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


@dataclass(frozen=True)
class Turn:
    """A round as a learner is asked for it.

    `policy_version` is the one that it goes on from: a process that has another has lost rounds, and refuses. `resumed` then
    hears what it has, as it does when the process dies.
    """

    round: int
    policy_version: int
    state: State
    save: Save
    resumed: Callable[[PolicyInfo], None]


@dataclass(frozen=True)
class Learner:
    """Calls a process that updates. All operations raise LocalError when it died, does not answer, or cannot do it."""

    worker: Worker
    _patience: Patience = field(default_factory=Patience)

    async def update(self, rollouts: Sequence[ScoredRollout], turn: Callable[[], Turn]) -> Updated:
        """One round's update. `turn` is asked before each attempt."""

        return await self._once(turn, partial(self._update, rollouts), Updated)

    async def rollback(self, to_round: int | None, turn: Callable[[], Turn]) -> RolledBack:
        """Go back to an earlier round's checkpoint, as a round of its own. Raises StateError when that cannot be used."""

        async def attempt(now: Turn) -> RolledBack:
            return await ask(
                self.worker,
                self._patience.bound_s,
                PolicyOps.rollback,
                to_round=to_round,
                round=now.round,
                state=now.state,
            )

        return await self._once(turn, attempt, RolledBack)

    async def save(self, turn: Turn) -> Saved:
        """A checkpoint of a round that has none. Raises ChildDied when that round is lost with its process."""
        try:
            return (await self._update((), turn)).saved
        except ChildDied:
            turn.resumed(await self.resumed())
            raise

    async def _update(self, rollouts: Sequence[ScoredRollout], turn: Turn) -> Updated:
        return await self._patience.with_it(
            lambda within_s: ask(
                self.worker,
                within_s,
                PolicyOps.update,
                rollouts=rollouts,
                round=turn.round,
                policy_version=turn.policy_version,
                state=turn.state,
                save=turn.save,
            )
        )

    async def publish_weights(self, directory: str) -> Published:
        """Write the newest weights to a file in `directory`."""
        return await ask(self.worker, HAND_OVER_S, PolicyOps.publish_weights, directory=directory)

    async def about(self) -> PolicyInfo:
        """The process as it is now."""
        return await ask(self.worker, self._patience.bound_s, PolicyOps.about)

    async def resumed(self) -> PolicyInfo:
        """The newest process, with what it went on from."""
        return typed(PolicyInfo, await self.worker.wait_ready())

    async def _once(
        self,
        turn: Callable[[], Turn],
        attempt: Callable[[Turn], Awaitable[Answer]],
        answer: Callable[[int, Saved], Answer],
    ) -> Answer:
        """Repeat an attempt whose process died, unless that process's checkpoint shows that the attempt had succeeded."""
        for number in range(1, ATTEMPTS_MAX + 1):
            now = turn()
            try:
                return await attempt(now)
            except ChildDied as error:
                log.warning(
                    "the update process was lost in round %d (attempt %d): %s", now.round, number, error
                )
                info = await self.resumed()
                now.resumed(info)
                if info.state.get("round") == now.round:
                    return answer(info.policy_version, Saved(now.round, info.resumed_from))
        raise LocalError(f"the update process died {ATTEMPTS_MAX} times in round {now.round}")


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
