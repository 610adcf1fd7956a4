"""A scored rollout: what the loops hand to the policy, wherever it came from.

The sender's reward is never here: `reward` is what this node's own scorer said. This form never leaves the machine.
"""

from dataclasses import dataclass

from swarmd.experience.advantages import is_informative


@dataclass(frozen=True, slots=True)
class ScoredCompletion:
    """One answer text with this node's reward for it.

    `token_ids` are the own engine's and exist for own completions only. `logprob_sum` (natural log, summed over `num_tokens`)
    is the own engine's measurement, or for an external completion the sender's unproven claim. `token_logps`, of `token_ids`, are
    the own engine's too: they go from generation to the update of this node, and never to another.
    """

    text: str
    finished: bool
    reward: float
    token_ids: tuple[int, ...] | None = None
    logprob_sum: float | None = None
    num_tokens: int | None = None
    token_logps: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class ScoredRollout:
    """One question with all its completions, scored here: one GRPO group.

    `author` is the 32-byte public key, `created_ms` Unix time by the author's clock, `policy_version` the author's count of
    updates when it generated. `external` is false for this node's own.
    """

    author: bytes
    dataset: int
    counter: int
    prompt: str
    completions: tuple[ScoredCompletion, ...]
    created_ms: int
    policy_version: int
    external: bool

    def __post_init__(self) -> None:
        if not self.completions:
            raise ValueError("a rollout has at least one completion")

    @property
    def rewards_G(self) -> list[float]:
        return [completion.reward for completion in self.completions]

    @property
    def informative(self) -> bool:
        return is_informative(self.rewards_G)
