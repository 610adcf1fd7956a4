"""Watch: what the update loop asks of whoever watches over the policy. The canary does; a node without a canary has `Unwatched`."""

from collections.abc import Sequence
from typing import Protocol

from swarmd.clients.policy import PolicyInfo, State
from swarmd.loops.canary.backoff import Backoff
from swarmd.loops.training import Training, Watcher

NOBODY_DOUBTED = Backoff()


class Watch(Watcher, Protocol):
    """Watches over the policy, round by round."""

    @property
    def backoff(self) -> Backoff:
        """Says which authors' external rollouts may be drawn now."""

    def used(self, authors: Sequence[bytes]) -> None:
        """A round is about to train on external rollouts; `authors` names the author of each."""

    async def after_round(self, training: Training) -> None:
        """Measure the policy if that is due. A policy that fell goes back, and that is a round of its own."""

    async def took_back(self, version: int, training: Training) -> bool:
        """Whether the policy version that own rollouts were generated with was taken back since."""


class Unwatched:
    """Admits everybody, measures nothing and never goes back."""

    backoff = NOBODY_DOUBTED

    def used(self, authors: Sequence[bytes]) -> None:
        """Nothing is remembered."""

    def to_state(self) -> State:
        """Nothing."""
        return {}

    def resumed(self, info: PolicyInfo) -> None:
        """Nothing was taken back that could be lost."""

    def unsaved(self, round: int) -> None:
        """No round is remembered."""

    async def after_round(self, training: Training) -> None:
        """The node goes on."""

    async def took_back(self, version: int, training: Training) -> bool:
        """Never."""
        return False
