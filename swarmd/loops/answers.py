"""The answers of one generation, before anybody has scored them: what is shared of them, and what scores make of them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from swarmd.clients.policy import Generated, OwnCompletion
from swarmd.clients.scorer import ScoreItem
from swarmd.experience.rollouts import ScoredCompletion, ScoredRollout
from swarmd.loops.ask import Question
from swarmd.protocol.types import COMPLETION_BYTES_MAX, Completion, Rollout


@dataclass(frozen=True)
class OwnRollouts:
    """The rollouts of one generation, on their way to the swarm."""

    rollouts: tuple[Rollout, ...]
    created_ms: int
    policy_version: int


@dataclass(frozen=True)
class Answers:
    """What the policy answered to these questions."""

    questions: list[Question]
    made: Generated
    created_ms: int

    @property
    def to_score(self) -> list[ScoreItem]:
        """What the scorer is asked."""
        return [
            ScoreItem(question.dataset, question.seed, texts)
            for question, texts in zip(self.questions, self.made.texts_RG, strict=True)
        ]

    def to_share(self) -> OwnRollouts:
        """All rollouts that are not too large for a message."""
        rollouts = [
            Rollout(
                dataset=question.dataset,
                counter=question.counter,
                completions=tuple(map(_completion, completions)),
            )
            for question, completions in zip(self.questions, self.made.completions_RG, strict=True)
            if all(len(c.text) <= COMPLETION_BYTES_MAX for c in completions)
        ]
        return OwnRollouts(tuple(rollouts), self.created_ms, self.made.policy_version)

    def scored(
        self, rewards_RG: Sequence[list[float]], author: bytes, level: Callable[[list[float]], list[float]]
    ) -> list[ScoredRollout]:
        """The rollouts with their rewards, `level` applied to those of each."""
        return [
            ScoredRollout(
                author=author,
                dataset=question.dataset,
                counter=question.counter,
                prompt=question.prompt,
                completions=tuple(
                    _scored(own, reward) for own, reward in zip(completions, level(rewards), strict=True)
                ),
                created_ms=self.created_ms,
                policy_version=self.made.policy_version,
                external=False,
            )
            for question, completions, rewards in zip(
                self.questions, self.made.completions_RG, rewards_RG, strict=True
            )
        ]


def _scored(own: OwnCompletion, reward: float) -> ScoredCompletion:
    return ScoredCompletion(
        text=own.text,
        finished=own.finished,
        reward=reward,
        token_ids=own.token_ids,
        logprob_sum=own.logprob_sum,
        num_tokens=own.num_tokens,
        token_logps=own.token_logps,
    )


def _completion(made: OwnCompletion) -> Completion:
    """The shared part of a completion. A sum that is no number, of a policy that fell apart, is not claimed."""
    logprob_sum = made.logprob_sum
    claimed = logprob_sum if logprob_sum is not None and math.isfinite(logprob_sum) else None
    return Completion(text=made.text, finished=made.finished, logprob_sum=claimed, num_tokens=made.num_tokens)
