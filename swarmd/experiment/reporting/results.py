"""Reads a folder of finished cells: each file once, and whatever cannot be used is named with its reason, never passed over.

Everything in such a folder is somebody's text: types are checked and strings bounded here; they are escaped where they are written.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from swarmd.errors import ConfigError
from swarmd.experiment.reporting.curves import Array, Curve

# What is kept of a round's record; the rest of it is for whoever debugs a run.
COLUMNS = (
    "reward_own", "reward_training", "num_generated", "num_generated_informative", "num_generated_tokens",
    "num_tokens_local", "num_tokens_external", "num_own", "num_own_informative", "num_external", "shortfall", "num_pool",
    "num_pool_informative", "external_age_s", "seconds_generate", "seconds_update",
)  # fmt: skip
# Longest name that is shown whole; longer ones would break tables and pictures.
NAME_MAX = 60
REASON_MAX = 300


@dataclass(frozen=True)
class Evaluations:
    """Held-out evaluations of one node, by round."""

    round_E: Array
    mean_E: Array
    standard_error_E: Array
    num_questions: int
    by_dataset: dict[str, Array]
    dataset_sizes: dict[str, int]

    @property
    def curve(self) -> Curve:
        """Held-out reward by round."""
        return Curve(self.round_E, self.mean_E, step=False)


@dataclass(frozen=True)
class FinishedNode:
    """One node of a cell: what it was, and its rounds as columns (NaN where a record had none).

    `used_by_author` counts external rollouts that the node used, by peer id; `num_rejected` counts messages that it rejected.
    """

    name: str
    model: str
    speed: float
    datasets: tuple[str, ...]
    joins_at_round: int
    settings: dict[str, Any]
    round_R: Array
    columns: dict[str, Array]
    evaluations: Evaluations | None
    used_by_author: dict[str, int]
    num_rejected: int

    def column(self, name: str) -> Array | None:
        """One column, or None if any round lacks it."""
        values_R = self.columns[name]
        return None if not len(values_R) or np.isnan(values_R).any() else values_R


@dataclass(frozen=True)
class FinishedCell:
    """One arm with one seed in one scenario."""

    scenario: str
    arm: str
    seed: int
    settings: dict[str, Any]
    rounds: int
    seconds: float
    nodes: tuple[FinishedNode, ...]


@dataclass(frozen=True)
class LeftOut:
    """A cell that is not compared, and why."""

    place: str
    status: str
    reason: str


@dataclass(frozen=True)
class Experiment:
    """What a folder holds."""

    directory: Path
    facts: dict[str, Any]
    cells: list[FinishedCell]
    left_out: list[LeftOut]

    @property
    def scenarios(self) -> list[str]:
        """Their names, in order of the alphabet ("alike" comes first)."""
        return sorted({cell.scenario for cell in self.cells})

    def arms(self, scenario: str) -> list[str]:
        """The arms of a scenario, in order of the alphabet."""
        return sorted({cell.arm for cell in self.cells if cell.scenario == scenario})

    def of(self, scenario: str, arm: str) -> dict[int, FinishedCell]:
        """An arm's cells by seed, ascending."""
        found = {cell.seed: cell for cell in self.cells if (cell.scenario, cell.arm) == (scenario, arm)}
        return dict(sorted(found.items()))


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
    for place in places:
        name = harmless(str(place.parent.relative_to(directory / "cells")), REASON_MAX)
        try:
            document = _object(json.loads(place.read_text(encoding="utf-8")))
            status = _text(document["status"])
            if seeds is not None and document["seed"] not in seeds:
                continue
            if status != "done":
                done, rounds = document.get("num_rounds_done", "?"), document.get("rounds", "?")
                error = document.get("error")
                reason = f"{done} of {rounds} rounds done" + (f": {error}" if error else "")
                left_out.append(LeftOut(name, status, harmless(reason, REASON_MAX)))
                continue
            cell = _cell(document, place.parent)
        except (OSError, ValueError, TypeError, KeyError) as error:
            reason = harmless(f"{type(error).__name__}: {error}", REASON_MAX)
            left_out.append(LeftOut(name, "unreadable", reason))
            continue
        key = (cell.scenario, cell.arm, cell.seed)
        if key in cells:
            left_out.append(LeftOut(name, "twice", "another folder holds the same scenario, arm and seed"))
        cells.setdefault(key, cell)
    if not cells:
        detail = "; ".join(f"{gap.place}: {gap.status}, {gap.reason}" for gap in left_out[:3])
        raise ConfigError(
            f"none of the {len(places)} cells in {directory} can be compared",
            detail or f"no cell has a seed among {', '.join(map(str, seeds or ()))}",
            "let `swarmd experiment run` finish: it resumes where it stopped",
        )
    return Experiment(directory, _facts(directory / "experiment.json"), list(cells.values()), left_out)


def _facts(path: Path) -> dict[str, Any]:
    """What `experiment.json` says of the run; a folder of cells alone can be reported, too."""
    try:
        return _object(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        return {"problem": f"experiment.json cannot be read: {type(error).__name__}: {error}"}


def _cell(document: dict[str, Any], place: Path) -> FinishedCell:
    nodes = []
    for number, described in enumerate(document["nodes"]):
        nodes.append(_node(_object(described), place / f"node-{number}"))
    if not nodes:
        raise ValueError("a cell without nodes")
    return FinishedCell(
        scenario=_text(document["scenario"]),
        arm=_text(document["arm"]),
        seed=int(document["seed"]),
        settings={_text(key): value for key, value in sorted(_object(document["settings"]).items())},
        rounds=int(document["rounds"]),
        seconds=float(document.get("seconds") or 0.0),
        nodes=tuple(nodes),
    )


def _node(described: dict[str, Any], place: Path) -> FinishedNode:
    records = _by_round(place / "rounds.jsonl")
    if not records:
        raise ValueError(f"{place.name} finished no round")
    rows = list(records.values())
    return FinishedNode(
        name=_text(described.get("name") or place.name),
        model=_text(described.get("model") or "?"),
        speed=float(described.get("speed") or 1.0),
        datasets=tuple(_text(name) for name in described.get("datasets") or ()),
        joins_at_round=int(described.get("joins_at_round") or 0),
        settings={
            _text(key): value for key, value in sorted(_object(described.get("settings") or {}).items())
        },
        round_R=np.array(list(records), dtype=float),
        columns={name: np.array([_number(row.get(name)) for row in rows]) for name in COLUMNS},
        evaluations=_evaluations(place / "evaluations.jsonl"),
        used_by_author=_used_by_author(rows),
        num_rejected=int(rows[-1].get("rejected") or 0),
    )


def _used_by_author(rows: list[dict[str, Any]]) -> dict[str, int]:
    used: Counter[str] = Counter()
    for row in rows:
        used.update({_text(name): int(num) for name, num in _object(row.get("used_by_author") or {}).items()})
    return dict(used)


def _evaluations(path: Path) -> Evaluations | None:
    records = _by_round(path) if path.exists() else {}
    if not records:
        return None
    rows = list(records.values())
    means_E = np.array([_number(row["mean"]) for row in rows])
    if np.isnan(means_E).any():
        raise ValueError(f"{path.parent.name} has an evaluation without a mean")
    datasets = [_object(row.get("by_dataset") or {}) for row in rows]
    values = {
        name: [_number(by[name][0]) for by in datasets] for name in set(datasets[0]).intersection(*datasets)
    }
    complete = sorted(name for name, values_E in values.items() if not any(map(math.isnan, values_E)))
    return Evaluations(
        round_E=np.array(list(records), dtype=float),
        mean_E=means_E,
        standard_error_E=np.array([_number(row.get("standard_error")) for row in rows]),
        num_questions=int(rows[-1].get("num_questions") or 0),
        by_dataset={_text(name): np.array(values[name]) for name in complete},
        dataset_sizes={_text(name): int(datasets[-1][name][1]) for name in complete},
    )


def _by_round(path: Path) -> dict[int, dict[str, Any]]:
    """Records by their round, ascending: a run that was resumed repeats some, and the later one counts.

    A last line without its end was being written when the run was stopped; it is left out.
    """
    records = {}
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                record = _object(json.loads(line))
                records[int(record["round"])] = record
    return dict(sorted(records.items()))


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"an object was expected, not {type(value).__name__}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a name was expected, not {type(value).__name__}")
    return harmless(value, NAME_MAX)


def harmless(text: str, length_max: int) -> str:
    """Text as it may be shown anywhere: bounded, without control characters."""
    return "".join(c if c.isprintable() else "?" for c in text[:length_max])


def _number(value: Any) -> float:
    if value is None:
        return math.nan
    number = float(value)
    if math.isinf(number):
        raise ValueError("an infinite value")
    return number


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
