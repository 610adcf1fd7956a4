"""The canary's decisions: whether the policy has fallen below its best, and what is to be done about it.

The same held-out questions are measured every so many rounds. What is compared is each question with itself, at its best (a running
mean over several measurements) and now: the questions' own difficulties cancel out. A fall must show twice, first in one completion
a question and then in `CONFIRMING` fresh ones, and be larger than both an absolute bound and a number of standard errors.

A fall with no external rollout since the last good measurement is not the swarm's doing: nothing is rolled back then, and what
the policy is becomes the new measure. After any other fall the node learns alone, and others come back by and by: see `backoff`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Self

from swarmd.clients.policy import State
from swarmd.loops.canary.backoff import Backoff

Verdict = Literal["good", "low", "fallen"]

# Share of the newest measurement in the running mean: as good as (2 - a) / a = 9 measurements once it has run in, and 4 behind a
# policy that improves, so that a fall has to undo as much before it is one. At double, half the noise more; at half, 9 behind.
NEWEST = 0.2
# Share of the way that the best comes back to the running mean at each measurement but a fall. Without it luck is never forgotten,
# and a false alarm twice as likely. The price: what sinks for 200 rounds without a suspicion is not seen.
FADING = 0.1
# Completions a question by which a suspicion is confirmed: half the error of the first look, for 128 completions now and then.
CONFIRMING = 4
# Standard errors from which there is a suspicion, without which nothing is confirmed. With 2 it is one look in 6 to 100 of a policy
# that stands still, the more the fewer answers are right.
SUSPICION_ERRORS = 2.0

# Questions of a measurement: a single difference has no standard error.
QUESTIONS_MIN = 2


@dataclass(frozen=True, slots=True)
class Fall:
    """How much lower the questions' rewards are than at their best: the mean of the differences, and its standard error."""

    drop: float
    error: float


def fall(best: Sequence[float], now: Sequence[float]) -> Fall:
    """Compare question by question. Raises ValueError when they are not the same number, or fewer than two."""
    differences = [before - after for before, after in zip(best, now, strict=True)]
    if len(differences) < QUESTIONS_MIN:
        raise ValueError("a canary has at least two questions")
    drop = math.fsum(differences) / len(differences)
    variance = math.fsum((value - drop) ** 2 for value in differences) / (len(differences) - 1)
    return Fall(drop, math.sqrt(variance / len(differences)))


@dataclass(frozen=True, slots=True)
class Bounds:
    """A fall is above `drop_max` and above `errors_max` standard errors."""

    drop_max: float
    errors_max: float

    def suspects(self, seen: Fall) -> bool:
        """Whether a first look asks for a second one."""
        return seen.drop > max(self.drop_max, min(SUSPICION_ERRORS, self.errors_max) * seen.error)

    def confirms(self, seen: Fall) -> bool:
        """Whether the second look shows a fall."""
        return seen.drop > max(self.drop_max, self.errors_max * seen.error)


@dataclass(frozen=True, slots=True)
class Memory:
    """The canary's knowledge from measurement to measurement; it goes into every checkpoint.

    Attributes:
        key: what was measured; a memory with another key says nothing.
        measured_round: when it was measured last, whatever came out.
        good_round: the round whose checkpoint is the one to go back to; None while there is none.
        running, best: each question's mean reward over the latest measurements but falls, and when their mean was highest.
        num_external: external rollouts trained on since the last good measurement.
        backoff: what is remembered of falls, and of who was there.
    """

    key: str = ""
    measured_round: int = 0
    good_round: int | None = None
    running: tuple[float, ...] = ()
    best: tuple[float, ...] = ()
    num_external: int = 0
    backoff: Backoff = field(default_factory=Backoff)

    @property
    def can_roll_back(self) -> bool:
        """Whether a fall is answered by going back: there is something to go back to, and others had a part since."""
        return self.good_round is not None and self.num_external > 0

    def used(self, authors: Sequence[bytes]) -> Self:
        """A round has trained on external rollouts; `authors` names the author of each."""
        return replace(
            self, num_external=self.num_external + len(authors), backoff=self.backoff.used(authors)
        )

    def good(self, scores: Sequence[float], *, round: int) -> Self:
        """A measurement that showed no fall, of a round whose checkpoint is on disk."""
        measured = self._measured(scores, round)
        return replace(measured, good_round=round, num_external=0, backoff=self.backoff.good())

    def low(self, scores: Sequence[float], *, round: int) -> Self:
        """A measurement neither good enough to go back to, nor a fall: the node learns alone until there is one or the other.

        Else who holds the policy just above a fall for many blocks, and then lets it fall, would cost them all. The best fades here
        as well, or a policy a little below it would be a suspicion for ever.
        """
        return replace(self._measured(scores, round), backoff=self.backoff.doubtful())

    def unsaved(self, scores: Sequence[float], *, round: int) -> Self:
        """A measurement that showed no fall, of a round that has no checkpoint to go back to."""
        return self._measured(scores, round)

    def unsettled(self, round: int) -> Self:
        """A fall of which nothing could be made: all stays as it was until the next measurement."""
        return replace(self, measured_round=round)

    def rolled_back(self, round: int) -> Self:
        """The node went back, and goes on as `round`."""
        return replace(self, measured_round=round, num_external=0, backoff=self.backoff.fell(round))

    def accepted(self, scores: Sequence[float], *, round: int) -> Self:
        """A fall that is not rolled back: what the policy is now is the measure from here on.

        Where others had a part it counts as any other fall. Where they had none, it forgives them those before.
        """
        after = self.backoff.fell(round) if self.num_external else self.backoff.exculpated()
        fresh = type(self)(key=self.key, good_round=round, backoff=after)
        return fresh._measured(scores, round)

    def _measured(self, scores: Sequence[float], round: int) -> Self:
        running = _towards(self.running or scores, scores, NEWEST)
        best = _towards(self.best or running, running, FADING)
        return replace(self, measured_round=round, running=running, best=max(best, running, key=math.fsum))

    def to_state(self) -> State:
        return {
            "key": self.key,
            "measured_round": self.measured_round,
            "good_round": self.good_round,
            "running": list(self.running),
            "best": list(self.best),
            "num_external": self.num_external,
            "backoff": self.backoff.to_state(),
        }

    @classmethod
    def from_state(cls, state: State | None, key: str) -> Self:
        """The inverse of `to_state`; an empty memory where the state is none, or of something else that was measured.

        A state of before there was a backoff has none, and other fields that say nothing now.
        """
        fresh = cls(key=key)
        if not isinstance(state, Mapping) or state.get("key") != key:
            return fresh
        try:
            memory = cls(
                key=key,
                measured_round=int(state["measured_round"]),
                good_round=None if state["good_round"] is None else int(state["good_round"]),
                running=tuple(map(float, state["running"])),
                best=tuple(map(float, state["best"])),
                num_external=int(state["num_external"]),
                backoff=Backoff.from_state(state["backoff"]) if "backoff" in state else Backoff(),
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            return fresh
        return memory if len(memory.running) == len(memory.best) else fresh


def _towards(start: Sequence[float], end: Sequence[float], share: float) -> tuple[float, ...]:
    """So far on the way from one to the other, to four digits: a checkpoint's state is text."""
    return tuple(round(a + share * (b - a), 4) for a, b in zip(start, end, strict=True))
