"""Names and shapes of a model's tensors, read from its folder; promises that weights which do not fit are refused by name.

For an engine that would take anything: a tensor that is missing there stays silently as it was, and one of a wrong shape ruins it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Self

from swarmd.errors import StateError
from swarmd.policy.model.folder import read_json, weight_files
from swarmd.policy.model.header import tensor_shapes

Shapes = Mapping[str, tuple[int, ...]]
# Names of output heads in the models of the transformers library.
_HEADS = ("lm_head.weight", "embed_out.weight")
# Constants that old checkpoints carry along; no model has them as weights any more.
_CONSTANTS = (".rotary_emb.inv_freq",)


@dataclass(frozen=True)
class ModelShapes:
    """Names and shapes of a model's tensors.

    Attributes:
        shapes: of every tensor in its folder.
        head_is_tied: the output head is the embedding; weights may then come with it or without.
    """

    shapes: Shapes
    head_is_tied: bool

    @classmethod
    def of_folder(cls, path: Path) -> Self:
        """Read the headers of a Hugging Face folder. Raises ModelUnavailable."""
        shapes: dict[str, tuple[int, ...]] = {}
        for file in weight_files(path.name, path):
            found = tensor_shapes(path.name, file)
            shapes |= {name: shape for name, shape in found.items() if not name.endswith(_CONSTANTS)}
        tied = bool(read_json(path.name, path / "config.json").get("tie_word_embeddings"))
        return cls(shapes, tied or not any(name.endswith(_HEADS) for name in shapes))

    @property
    def num_parameters(self) -> int:
        """Parameters of the whole model; a tied head counts once."""
        return sum(prod(shape) for name, shape in self.shapes.items() if not self._may_be_absent(name))

    def check(self, found: Shapes, source: str) -> None:
        """Refuse names and shapes, `found` in `source`, that are not exactly this model's.

        Raises:
            StateError: tensors are missing, unknown or misshapen.
        """
        needed = {name for name in self.shapes if not self._may_be_absent(name)}
        problems = [f"missing tensor {name}" for name in sorted(needed - set(found))]
        unknown = {name for name in found if name not in self.shapes and not self._may_be_absent(name)}
        problems += [f"unknown tensor {name}" for name in sorted(unknown)]
        problems += [
            f"{name} has shape {tuple(shape)}, the model {self.shapes[name]}"
            for name, shape in sorted(found.items())
            if name in self.shapes and tuple(shape) != self.shapes[name]
        ]
        if problems:
            raise do_not_fit(source, problems)

    def _may_be_absent(self, name: str) -> bool:
        return self.head_is_tied and name.endswith(_HEADS)


def do_not_fit(source: object, problems: Sequence[str]) -> StateError:
    """The error for weights of `source` that are not this model's; it names the first three problems."""
    more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
    return StateError(
        f"the weights in {source} do not fit the model",
        "; ".join(problems[:3]) + more,
        "they belong to another model, or to another version of it",
    )
