"""Reads a folder of finished cells: each file once, and whatever cannot be used is named with its reason, never passed over.

Everything in such a folder is somebody's text: types are checked and strings bounded as they are read, and escaped where they
are written.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator

from swarmd.errors import ConfigError, StateError
from swarmd.experiment.cell import NAME_MAX, Cell, NodeSpec, why_unread
from swarmd.experiment.reporting.curves import Array
from swarmd.printable import printable

# What is kept of a round's record; the rest of it is for whoever debugs a run.
COLUMNS = (
    "reward_own", "reward_training", "num_generated", "num_generated_informative", "num_generated_tokens",
    "num_tokens_local", "num_tokens_external", "num_own", "num_own_informative", "num_external", "shortfall", "num_pool",
    "num_pool_informative", "external_age_s", "seconds_generate", "seconds_update",
)  # fmt: skip
REASON_MAX = 300


def _not_infinite(value: float) -> float:
    if math.isinf(value):
        raise ValueError("an infinite value")
    return value


# NaN where a record has none.
Value = Annotated[
    float, BeforeValidator(lambda value: math.nan if value is None else value), AfterValidator(_not_infinite)
]


class _Round(BaseModel):
    """A line of `rounds.jsonl`."""

    round: int
    columns: dict[str, Value]
    used_by_author: dict[str, int] = {}
    rejected: int = 0

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, record: object) -> dict[str, object]:
        if not isinstance(record, dict):
            raise ValueError("an object was expected")
        return {**record, "columns": {name: record.get(name) for name in COLUMNS}}


class _Evaluation(BaseModel):
    """A line of `evaluations.jsonl`."""

    round: int
    mean: float = Field(allow_inf_nan=False)
    standard_error: Value = math.nan
    by_dataset: dict[str, tuple[Value, int]] = {}


Row = TypeVar("Row", _Round, _Evaluation)


@dataclass(frozen=True)
class Evaluations:
    """Held-out evaluations of one node, by round."""

    round_E: Array
    mean_E: Array
    standard_error_E: Array
    by_dataset: dict[str, Array]
    dataset_sizes: dict[str, int]


@dataclass(frozen=True)
class FinishedNode:
    """One node of a cell: what it was, and its rounds as columns (NaN where a record had none).

    `used_by_author` counts external rollouts that the node used, by peer id; `num_rejected` counts messages that it rejected.
    """

    spec: NodeSpec
    round_R: Array
    columns: dict[str, Array]
    evaluations: Evaluations | None
    used_by_author: dict[str, int]
    num_rejected: int

    def column(self, name: str) -> Array:
        """One column, all of it NaN if any round lacks it."""
        values_R = self.columns[name]
        return np.full_like(values_R, np.nan) if np.isnan(values_R).any() else values_R


@dataclass(frozen=True)
class FinishedCell:
    """One arm with one seed in one scenario, and what its nodes did."""

    spec: Cell
    nodes: tuple[FinishedNode, ...]


@dataclass(frozen=True)
class LeftOut:
    """A cell that is not compared, and why."""

    place: str
    status: str
    reason: str


@dataclass(frozen=True)
class Experiment:
    directory: Path
    facts: dict[str, object]
    cells: list[FinishedCell]
    left_out: list[LeftOut]

    @property
    def scenarios(self) -> list[str]:
        """Their names, in order of the alphabet ("alike" comes first)."""
        return sorted({cell.spec.scenario for cell in self.cells})

    def arms(self, scenario: str) -> list[str]:
        """The arms of a scenario, in order of the alphabet."""
        return sorted({cell.spec.arm for cell in self.cells if cell.spec.scenario == scenario})

    def of(self, scenario: str, arm: str) -> dict[int, FinishedCell]:
        """An arm's cells by seed, ascending."""
        found = [cell for cell in self.cells if (cell.spec.scenario, cell.spec.arm) == (scenario, arm)]
        return {cell.spec.seed: cell for cell in sorted(found, key=lambda cell: cell.spec.seed)}


def read_experiment(directory: Path, seeds: Sequence[int] | None = None) -> Experiment:
    """The finished cells below a folder, those of `seeds` alone if given. Raises ConfigError where there is none."""
    places = sorted(directory.glob("cells/*/*/seed-*/cell.json"))
    if not places:
        raise ConfigError(
            f"{directory} holds no cell of an experiment",
            f"there is no file {directory / 'cells'}/SCENARIO/ARM/seed-N/cell.json",
            "name the folder that `swarmd experiment run` wrote to, or run it first",
        )
    cells: dict[tuple[str, str, int], FinishedCell] = {}
    left_out = []

    def leave_out(place: Path, status: str, reason: str) -> None:
        name = printable(str(place.relative_to(directory / "cells")), REASON_MAX)
        left_out.append(LeftOut(name, status, printable(reason, REASON_MAX)))

    for place in (path.parent for path in places):
        try:
            spec = Cell.load(place)
            if seeds is not None and spec.seed not in seeds:
                continue
            if spec.status != "done":
                far = f"{spec.num_rounds_done} of {spec.rounds} rounds done"
                leave_out(place, spec.status, f"{far}: {spec.error}" if spec.error else far)
                continue
            nodes = [_node(node, place / f"node-{number}") for number, node in enumerate(spec.nodes)]
        except StateError as error:
            leave_out(place, "unreadable", error.why)
            continue
        except (OSError, ValueError) as error:
            leave_out(place, "unreadable", why_unread(error))
            continue
        key = (spec.scenario, spec.arm, spec.seed)
        if key in cells:
            leave_out(place, "twice", "another folder holds the same scenario, arm and seed")
        cells.setdefault(key, FinishedCell(spec, tuple(nodes)))
    if not cells:
        detail = "; ".join(f"{gap.place}: {gap.status}, {gap.reason}" for gap in left_out[:3])
        raise ConfigError(
            f"none of the {len(places)} cells in {directory} can be compared",
            detail or f"no cell has a seed among {', '.join(map(str, seeds or ()))}",
            "let `swarmd experiment run` finish: it resumes where it stopped",
        )
    return Experiment(directory, _facts(directory / "experiment.json"), list(cells.values()), left_out)


def _facts(path: Path) -> dict[str, object]:
    """What `experiment.json` says of the run; a folder of cells alone can be reported, too."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        return facts if isinstance(facts, dict) else {"problem": "experiment.json is not an object"}
    except (OSError, ValueError) as error:
        return {"problem": f"experiment.json cannot be read: {why_unread(error)}"}


def _node(spec: NodeSpec, place: Path) -> FinishedNode:
    rows = _by_round(place / "rounds.jsonl", _Round)
    if not rows:
        raise ValueError(f"{place.name} finished no round")
    used: Counter[str] = Counter()
    for row in rows:
        used.update(row.used_by_author)
    return FinishedNode(
        spec=spec,
        round_R=np.array([row.round for row in rows], dtype=float),
        columns={name: np.array([row.columns[name] for row in rows]) for name in COLUMNS},
        evaluations=_evaluations(place / "evaluations.jsonl"),
        used_by_author=dict(used),
        num_rejected=rows[-1].rejected,
    )


def _evaluations(path: Path) -> Evaluations | None:
    rows = _by_round(path, _Evaluation) if path.exists() else []
    if not rows:
        return None
    by_name = {
        name: np.array([row.by_dataset[name][0] for row in rows])
        for name in sorted(set.intersection(*(set(row.by_dataset) for row in rows)))
    }
    complete = [name for name, values_E in by_name.items() if not np.isnan(values_E).any()]
    return Evaluations(
        round_E=np.array([row.round for row in rows], dtype=float),
        mean_E=np.array([row.mean for row in rows]),
        standard_error_E=np.array([row.standard_error for row in rows]),
        by_dataset={printable(name, NAME_MAX): by_name[name] for name in complete},
        dataset_sizes={printable(name, NAME_MAX): rows[-1].by_dataset[name][1] for name in complete},
    )


def _by_round(path: Path, kind: type[Row]) -> list[Row]:
    """Records by their round, ascending: a run that was resumed repeats some, and the later one counts.

    A last line without its end was being written when the run was stopped; it is left out.
    """
    rows: dict[int, Row] = {}
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                row = kind.model_validate_json(line)
                rows[row.round] = row
    return [rows[number] for number in sorted(rows)]


def dataset_names(cells: Mapping[str, Sequence[FinishedCell]]) -> list[str]:
    """The datasets that any evaluation of these arms' cells tells apart, sorted."""
    return sorted(
        {
            name
            for found in cells.values()
            for cell in found
            for node in cell.nodes
            if node.evaluations is not None
            for name in node.evaluations.by_dataset
        }
    )
