"""Engines: they take prompts' ids, return sampled completions, and take new weights. Imports nothing heavy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Sampling:
    """How to sample: `temperature` 0 takes the likeliest token; `tokens_max` counts the end token."""

    num_completions: int
    temperature: float
    tokens_max: int
    seed: int


@dataclass
class Sampled:
    """One completion: its ids, with the end token where it `finished`, and the log-prob of each (nats).

    Log-probs are those of the distribution that was sampled from, softmax(logits / temperature) with nothing truncated; at
    temperature 0 those at temperature 1.
    """

    ids: list[int] = field(default_factory=list)
    logps: list[float] = field(default_factory=list)
    finished: bool = False

    @property
    def logprob_sum(self) -> float:
        """The whole completion's log-prob, in nats."""
        return sum(self.logps)


class Engine(Protocol):
    """An engine generates. Calls come one at a time, from one thread.

    `keeps_weights`: the engine has its own copy of the weights, and new ones come through `load_weights`. Where a learner changes
    the engine's own tensors (`shared_weights`), or the very module that it samples from, they are there by themselves.
    `own_forward`: the engine computes log-probs in its own way, and a learner's differ a little. Other engines run the learner's
    module, adapters and all.
    """

    name: str
    version: str
    keeps_weights: bool
    own_forward: bool

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[list[Sampled]]:
        """`num_completions` for each prompt's ids, in order. Equal arguments and weights give equal completions.

        A prompt that fills the context gets empty, unfinished completions.

        Raises:
            OutOfMemory: not even one completion at a time fits.
        """

    def load_weights(self, weights: "Path | Mapping[str, Tensor]", policy_version: int) -> None:
        """Take new weights: a safetensors file, a folder with one, or live tensors by name, which are copied.

        Wakes a sleeping engine. A no-op where the module is shared.

        Raises:
            StateError: unreadable, or names or shapes do not fit; nothing has been changed then.
        """

    def tensors(self) -> "Mapping[str, Tensor]":
        """The engine's own weights by its own names, whose memory a model may share; empty where it may not."""

    def sleep(self) -> bool:
        """Give back what memory the engine can while the other role works.

        Returns whether the weights went with it: then `load_weights` must come before `generate`.
        """
