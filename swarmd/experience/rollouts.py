"""A scored rollout: what the loops hand to the policy, wherever it came from.

The sender's reward is never here: `reward` is what this node's own scorer said. `to_wire` and `from_wire` carry a rollout to a
child process as plain msgpack types; this form never leaves the machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

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

    def to_wire(self) -> dict[str, Any]:
        """This completion as msgpack types."""
        return {
            "text": self.text,
            "finished": self.finished,
            "reward": self.reward,
            "token_ids": None if self.token_ids is None else list(self.token_ids),
            "logprob_sum": self.logprob_sum,
            "num_tokens": self.num_tokens,
            "token_logps": None if self.token_logps is None else list(self.token_logps),
        }

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Self:
        """The inverse of `to_wire`. Raises TypeError when a field is missing or unknown."""
        of_tokens = {
            name: None if wire.get(name) is None else tuple(wire[name])
            for name in ("token_ids", "token_logps")
        }
        return cls(**{**wire, **of_tokens})


@dataclass(frozen=True, slots=True)
class ScoredRollout:
    """One question with all its completions, scored here: one GRPO group.

    `author` is the 32-byte public key, `created_ms` Unix time by the author's clock, `policy_version` the author's count of
    updates when it generated. `external` is false for this node's own. `capability` is how well its author does against
    this node, as `trust.capability` measured it.
    """

    author: bytes
    dataset: int
    counter: int
    prompt: str
    completions: tuple[ScoredCompletion, ...]
    created_ms: int
    policy_version: int
    external: bool
    capability: float = 1.0

    def __post_init__(self) -> None:
        if not self.completions:
            raise ValueError("a rollout has at least one completion")

    @property
    def rewards_G(self) -> list[float]:
        """The rewards, in the order of the completions."""
        return [completion.reward for completion in self.completions]

    @property
    def informative(self) -> bool:
        """Whether the rewards are not all equal."""
        return is_informative(self.rewards_G)

    def to_wire(self) -> dict[str, Any]:
        """This rollout as msgpack types."""
        return {
            "author": self.author,
            "dataset": self.dataset,
            "counter": self.counter,
            "prompt": self.prompt,
            "completions": [completion.to_wire() for completion in self.completions],
            "created_ms": self.created_ms,
            "policy_version": self.policy_version,
            "external": self.external,
            "capability": self.capability,
        }

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Self:
        """The inverse of `to_wire`. Raises KeyError or TypeError when a field is missing or unknown."""
        completions = tuple(ScoredCompletion.from_wire(completion) for completion in wire["completions"])
        return cls(**{**wire, "completions": completions})
