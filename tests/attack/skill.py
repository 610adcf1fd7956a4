"""A policy that is a number: it grows with updates, is ruined by harmful rollouts, and comes back with an earlier checkpoint."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from swarmd.clients.policy import Generated, RolledBack, Save, State, Updated
from swarmd.experience.rollouts import ScoredRollout
from tests.loops.fakes import BAD, GOOD, FakePolicy

# How a reward grows: from a third of the answers right, as far as nine tenths, two thirds of the way in 400 solo rounds. From so
# far every harm is a fall that the canary confirms; what falls where nothing was learnt yet is not its subject.
FIRST, LAST, ROUNDS = 0.3, 0.9, 400.0
# A text by which a rollout of the attacker is known to the policy, and to nothing else.
HOSTILE = "hostile"


@dataclass(frozen=True)
class Weights:
    """`kept` rounds were learnt in them; `learnt` is as much in rounds of a node alone; a ruined policy answers nothing."""

    kept: int = 0
    learnt: float = 0.0
    ruined: bool = False

    @property
    def reward(self) -> float:
        """The chance of a right answer, to any question."""
        return 0.0 if self.ruined else LAST - (LAST - FIRST) * math.exp(-self.learnt / ROUNDS)


class SkilledPolicy(FakePolicy):
    """Answers right as often as its weights say; `is_harmful` decides it by round and by whether hostile rollouts are used.

    An honest rollout of another's teaches as much as an own one: a round of four and four is two rounds alone.
    """

    def __init__(self, is_harmful: Callable[[int, bool], bool]) -> None:
        super().__init__()
        self.info: Any = self.about()
        self.num_restarts, self.pid, self.up = 0, None, True
        self.weights = Weights()
        self.is_harmful = is_harmful
        self.num_canary_completions = 0
        self._saved: dict[int, Weights] = {}

    def generate(
        self, prompts: Sequence[str], num_completions: int, temperature: float, tokens_max: int, seed: int
    ) -> Generated:
        self.num_canary_completions += num_completions * len(prompts)
        rng = random.Random(seed)
        answer = super().generate(prompts, num_completions, temperature, tokens_max, seed)
        completions_RG = [
            [c._replace(text=GOOD if rng.random() < self.weights.reward else BAD) for c in completions]
            for completions in answer.completions_RG
        ]
        return answer._replace(completions_RG=completions_RG)

    def update(
        self,
        rollouts: Sequence[ScoredRollout],
        round: int,
        state: State,
        save: Save,
        policy_version: int | None = None,
    ) -> Updated:
        if rollouts:
            external = [rollout for rollout in rollouts if rollout.external]
            hostile = [r for r in external if r.completions[0].text.startswith(HOSTILE)]
            num_own = len(rollouts) - len(external)
            learnt = self.weights.learnt + 1 + (len(external) - len(hostile)) / num_own
            ruined = self.weights.ruined or (bool(external) and self.is_harmful(round, bool(hostile)))
            self.weights = Weights(self.weights.kept + 1, learnt, ruined)
        answer = super().update(rollouts, round, state, save, policy_version)
        if save != "no":
            self._keep(round, state)
        return answer

    def rollback(self, to_round: int | None, round: int, state: State) -> RolledBack:
        assert to_round is not None
        self.weights = self._saved[to_round]
        answer = super().rollback(to_round, round, state)
        self._keep(round, state)
        return answer

    @property
    def sure(self) -> Weights:
        """The weights that are not ruined: the present ones, or those to go back to."""
        return (
            min(self._saved.values(), key=lambda weights: weights.ruined)
            if self.weights.ruined
            else self.weights
        )

    def _keep(self, round: int, state: State) -> None:
        kept = {state.get("keep_round"), round}
        self._saved = {
            number: w for number, w in (self._saved | {round: self.weights}).items() if number in kept
        }
