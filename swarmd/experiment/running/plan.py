"""The plan of an experiment: its cells in their order, what each is, and which of them are done already.

Cells are ordered by seed first: a run that ends early leaves whole seeds, in which every arm can be compared with every other.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swarmd.config import Config, load_config
from swarmd.errors import ConfigError, StateError
from swarmd.experiment.arms import Arm, check_settings
from swarmd.experiment.cell import Cell, NodeSpec, require_equal_speeds, settings_of
from swarmd.experiment.presets import Preset
from swarmd.experiment.scenarios import nodes_of


@dataclass(frozen=True)
class PlannedCell:
    """One arm with one seed in one scenario. The cell's settings are the preset's, then the command line's, then the arm's."""

    arm: Arm
    cell: Cell

    @property
    def label(self) -> str:
        """For a line of progress."""
        return f"{self.cell.scenario} {self.arm.name} seed {self.cell.seed}"

    def folder(self, root: Path) -> Path:
        """Where it lies below the experiment's folder."""
        return root / "cells" / self.cell.scenario / self.arm.slug / f"seed-{self.cell.seed}"

    def config(self, node: NodeSpec) -> Config:
        """The settings in force in one of its nodes. Raises ConfigError when no node could be started with them."""
        return load_config(flags=settings_of(self.cell, node), environ={})


def make_plan(
    preset: Preset,
    arms: Sequence[Arm],
    seeds: Sequence[int],
    scenarios: Sequence[str],
) -> list[PlannedCell]:
    """All cells, seed by seed.

    Args:
        preset: with the number of nodes and rounds, the runner, the model, the manifest and every arm's settings.

    Raises:
        ConfigError: an unknown scenario, nothing to compare, or settings that no node takes.
    """
    if not (arms and seeds and scenarios):
        raise ConfigError("there is nothing to run", "arms, seeds and scenarios must each name one")
    plan = []
    for seed in seeds:
        for scenario in scenarios:
            nodes = nodes_of(scenario, preset.num_nodes, preset.model, preset.rounds)
            if preset.runner == "processes":
                require_equal_speeds(nodes)
            for arm in arms:
                merged = {"swarm.name": preset.manifest, **preset.settings, **arm.settings}
                check_settings(merged, f"arm {arm.name!r}")
                cell = Cell(scenario, arm.name, merged, seed, nodes, preset.rounds, preset.runner)
                plan.append(PlannedCell(arm, cell))
    return plan


def read_cell(folder: Path) -> dict[str, Any] | None:
    """A folder's cell.json, None where there is none. Raises StateError when it is not one."""
    path = folder / "cell.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StateError(f"cannot read {path}", str(error), f"remove {folder}, and it is run again") from None
    if not isinstance(document, dict) or "status" not in document:
        raise StateError(f"{path} is not a cell", fix=f"remove {folder}, and it is run again")
    return document


def differences(cell: Cell, found: Mapping[str, Any]) -> list[str]:
    """In what a cell on disk is another one than `cell`: a text for each setting or number, one for the nodes."""
    texts = []
    for key, new in json.loads(json.dumps(cell.spec)).items():
        old = found.get(key)
        if old == new:
            continue
        if key == "settings" and isinstance(old, dict):
            names = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
            texts += [
                f"{name} was {old.get(name, 'not set')}, now {new.get(name, 'not set')}" for name in names
            ]
        elif key == "nodes" and isinstance(old, list):
            texts.append(
                f"nodes were {len(old)}, now {len(new)}"
                if len(old) != len(new)
                else "the nodes are others (model, speed, settings, first round or datasets)"
            )
        else:
            texts.append(f"{key} was {old}, now {new}")
    return texts


def waiting_cells(root: Path, plan: Sequence[PlannedCell], *, again: bool) -> list[PlannedCell]:
    """The cells that have to be run: those that are not done, in the plan's order.

    Args:
        again: whether done cells of another specification are run anew.

    Raises:
        StateError: a cell is done with another specification, and `again` is not asked for.
    """
    waiting = []
    for planned in plan:
        found = read_cell(planned.folder(root))
        if found is None or found["status"] != "done":
            waiting.append(planned)
        elif changed := differences(planned.cell, found):
            if not again:
                raise StateError(
                    f"{planned.label} in {root} was run with other settings: {'; '.join(changed)}",
                    "its results cannot be compared with those of this command",
                    "name another folder, or redo such cells with --again",
                )
            waiting.append(planned)
    return waiting
