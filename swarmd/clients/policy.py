"""The policy processes: one that generates, one that updates, or both in one. Their operations and answers."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from swarmd.clients.update_stats import UpdateStats
from swarmd.errors import Failure
from swarmd.experience.rollouts import ScoredRollout

State = dict[str, Any]
"""A checkpoint keeps this of its round beside weights and optimizer, as JSON."""


class OwnCompletion(NamedTuple):
    """A completion of this node's engine. Log-probs are natural, of the tokens as they were sampled."""

    text: str
    finished: bool
    token_ids: tuple[int, ...]
    logprob_sum: float | None
    token_logps: tuple[float, ...] | None

    @property
    def num_tokens(self) -> int:
        """Tokens, with the end token where it finished."""
        return len(self.token_ids)


class Generated(NamedTuple):
    """Completions for each prompt, in order. `seconds_weight_sync` is what an engine's own copy of the weights took of it."""

    policy_version: int
    completions_RG: list[list[OwnCompletion]]
    num_prompt_tokens: int
    seconds: float
    seconds_weight_sync: float

    @property
    def texts_RG(self) -> list[list[str]]:
        """The completions' texts."""
        return [[completion.text for completion in completions] for completions in self.completions_RG]

    @property
    def num_completion_tokens(self) -> int:
        """Tokens of all completions."""
        return sum(completion.num_tokens for completions in self.completions_RG for completion in completions)


Save = Literal["no", "background", "now"]
"""Whether a round gets a checkpoint: none, one whose fate a later answer tells, or one before the answer."""


class Saved(NamedTuple):
    """The checkpoint of a round, by name, or why there is none. Neither, where none was asked for or none is finished.

    Attributes:
        round: the round, which is an earlier one than the answer's where the checkpoint was written in the background.
        seconds: from its beginning until it was on disk; `seconds_held` of these the process could not train.
    """

    round: int | None = None
    checkpoint: str | None = None
    failure: Failure | None = None
    seconds: float | None = None
    size_bytes: int = 0
    seconds_held: float | None = None

    def to_record(self) -> dict[str, object]:
        """Its part of a round's record."""
        record: dict[str, object] = {"checkpoint": self.checkpoint}
        if self.failure is not None:
            record["checkpoint_error"] = self.failure._asdict()
        if self.seconds is not None:
            record["seconds_checkpoint"] = self.seconds
            record["seconds_checkpoint_held"] = self.seconds_held
        return record


class Updated(NamedTuple):
    """One round's update. `stats` is None where the process died after its checkpoint was on disk."""

    policy_version: int
    saved: Saved
    stats: UpdateStats | None = None
    plan: str = ""
    seconds: float = 0.0

    def to_record(self) -> dict[str, object]:
        """The update's part of a round's record."""
        record = {"policy_version": self.policy_version, **self.saved.to_record()}
        if self.stats is not None:
            own = {"plan": self.plan, "seconds_update": self.stats.seconds, "seconds": self.seconds}
            record = {**asdict(self.stats), **own, **record}
            del record["left_out"]
        return record


class RolledBack(NamedTuple):
    """A return to an earlier round. `lost` says in words what of the optimizer could not be taken over."""

    policy_version: int
    saved: Saved
    lost: str = ""


class Published(NamedTuple):
    """Weights in a file."""

    path: str
    policy_version: int


class PolicyInfo(NamedTuple):
    """A policy process, and the checkpoint that it went on from when it started.

    Attributes:
        engine: its name, `none` where the process does not generate; `engine_note` says why it is not the expected one,
            or why it has a second copy of the weights.
        mismatch: how the update corrects for another engine's log-probs; None where the process does not update.
        plan: the memory plan in force, empty where there is none.
        resumed_from: a checkpoint's name; `state` is what it keeps of its round, empty for a start from nothing.
    """

    model: str
    num_parameters: int
    policy_version: int
    device: str
    engine: str
    engine_version: str
    engine_note: str
    tokens_max: int
    mismatch: str | None
    plan: str
    resumed_from: str | None
    state: State


class PolicyOps(Protocol):
    """The operations of a policy process, one after another."""

    OPS: ClassVar[frozenset[str]] = frozenset(
        {"about", "generate", "update", "rollback", "publish_weights", "load_weights"}
    )

    def start(self) -> PolicyInfo:
        """Load the model, and the newest good checkpoint over it."""

    def about(self) -> PolicyInfo:
        """What runs here now."""

    def generate(
        self, prompts: Sequence[str], num_completions: int, temperature: float, tokens_max: int, seed: int
    ) -> Generated:
        """So many completions for each prompt."""

    def update(
        self,
        rollouts: Sequence[ScoredRollout],
        round: int,
        state: State,
        save: Save,
        policy_version: int | None = None,
    ) -> Updated:
        """One update on a round's rollouts, then perhaps a checkpoint with `state`; without rollouts only the checkpoint.

        Raises ChildDied when the process is not at `policy_version`: an earlier process is gone, and rounds with it.
        """

    def rollback(self, to_round: int | None, round: int, state: State) -> RolledBack:
        """Take weights and optimizer of an earlier round's checkpoint, and write a checkpoint of this round at once."""

    def publish_weights(self, directory: str) -> Published:
        """Write the weights for another process to load."""

    def load_weights(self, path: str, policy_version: int) -> None:
        """Take published weights."""
