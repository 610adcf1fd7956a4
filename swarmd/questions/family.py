"""A family of datasets: a library that makes questions, and the table of what a swarm may use of it.

`datasets.py` lists the families. Nothing else in the tree knows a family by its name.
"""

import importlib.metadata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypedDict

from swarmd.questions.parameters import Bound

Params = Mapping[str, object]
"""A manifest's settings of one dataset; `parameters.check` looks at each value."""


class Item(TypedDict):
    """One question as a library generates it. Where `answer` is None there are many, and the rule reads `metadata`."""

    question: str
    answer: str | None
    metadata: dict[str, Any]


class Dataset(Protocol):
    """One configured dataset. Item 0 follows from `seed` alone, so that a dataset is made once and reseeded for every question."""

    seed: int | None

    def __getitem__(self, index: int) -> Item: ...

    def score_answer(self, answer: str, entry: Item) -> float:
        """The library's own reward, for datasets whose `Offer` names no rule of ours."""


Rule = Callable[[str, Item], float]
"""From an answer and the item to a reward."""


class ExactRule(NamedTuple):
    """Replaces a dataset's rule under `reward = "exact"`.

    `right_answer` is None for a question that has none: such a question is passed over and never asked.
    """

    score: Rule
    right_answer: Callable[[Item], str | None]


@dataclass(frozen=True)
class Offer:
    """One dataset that a swarm may use.

    `module` is where the family finds the dataset; `own` is our rule where the library's must not see foreign text; `chars_max`
    replaces the length cap where there is no oracle to derive it from; `exact_only` where partial credit would be most of the
    reward.
    """

    module: str
    bounds: Mapping[str, Bound] = field(default_factory=dict)
    own: Rule | None = None
    exact: ExactRule | None = None
    chars_max: int | None = None
    exact_only: bool = False


@dataclass(frozen=True)
class Family:
    """One library.

    Attributes:
        package: its name for pip.
        release: the one that the known digests were made with; pyproject.toml says the same.
        offered: the datasets that a manifest may use, by name.
        refused: the reviewed datasets that no manifest may use, each with the reason. A dataset in neither was not read yet.
        make: imports what a dataset needs, and makes it with checked parameters. Raises IncompatibleSwarm where the installed
            library lacks the dataset; ConfigError, AssertionError, ValueError or TypeError for parameters that do not go together.
    """

    package: str
    release: str
    offered: Mapping[str, Offer]
    refused: Mapping[str, str]
    make: Callable[[str, Params], Dataset]

    @property
    def installed(self) -> str:
        return importlib.metadata.version(self.package)
