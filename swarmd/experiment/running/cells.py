"""The cells of an experiment in their order, and which of them are done already.

Cells are ordered by seed first: a run that ends early leaves whole seeds, in which every arm can be compared with every other.
"""

from collections.abc import Sequence
from pathlib import Path

from swarmd.errors import ConfigError, StateError
from swarmd.experiment.arms import Arm, check_settings
from swarmd.experiment.cell import Cell, require_equal_speeds
from swarmd.experiment.presets import Preset
from swarmd.experiment.scenarios import nodes_of


def cells_of(
    preset: Preset, arms: Sequence[Arm], seeds: Sequence[int], scenarios: Sequence[str]
) -> list[Cell]:
    """All cells, seed by seed. A cell's settings are the preset's, then the command line's, then the arm's.

    Args:
        preset: with the number of nodes and rounds, the runner, the model, the manifest and every arm's settings.

    Raises:
        ConfigError: an unknown scenario, nothing to compare, or settings that no node takes.
    """
    if not (arms and seeds and scenarios):
        raise ConfigError("there is nothing to run", "arms, seeds and scenarios must each name one")
    cells = []
    for seed in seeds:
        for scenario in scenarios:
            nodes = nodes_of(scenario, preset.num_nodes, preset.model, preset.rounds)
            if preset.runner == "processes":
                require_equal_speeds(nodes)
            for arm in arms:
                merged = {"swarm.name": preset.manifest, **preset.settings, **arm.settings}
                check_settings(merged, f"arm {arm.name!r}")
                cells.append(Cell(scenario, arm.name, merged, seed, nodes, preset.rounds, preset.runner))
    return cells


def found_cell(folder: Path) -> Cell | None:
    """The cell that a folder holds, None where it holds none. Raises StateError when its `cell.json` is not one."""
    return Cell.load(folder) if (folder / "cell.json").exists() else None


def differences(cell: Cell, found: Cell) -> list[str]:
    """In what a cell on disk is another one than `cell`: a text for each setting or number, one for the nodes."""
    texts = [
        f"{name} was {getattr(found, name)}, now {getattr(cell, name)}"
        for name in ("scenario", "arm", "seed", "rounds", "runner")
        if getattr(found, name) != getattr(cell, name)
    ]
    was, now = found.settings, cell.settings
    texts += [
        f"{name} was {was.get(name, 'not set')}, now {now.get(name, 'not set')}"
        for name in sorted({*was, *now})
        if was.get(name) != now.get(name)
    ]
    if len(found.nodes) != len(cell.nodes):
        texts.append(f"nodes were {len(found.nodes)}, now {len(cell.nodes)}")
    elif found.nodes != cell.nodes:
        texts.append("the nodes are others (model, speed, settings, first round or datasets)")
    return texts


def waiting_cells(root: Path, cells: Sequence[Cell], *, again: bool) -> list[Cell]:
    """The cells that have to be run: those that are not done, in their order.

    Args:
        again: whether done cells of another specification are run anew.

    Raises:
        StateError: a cell is done with another specification, and `again` is not asked for.
    """
    waiting = []
    for cell in cells:
        found = found_cell(cell.folder(root))
        if found is None or found.status != "done":
            waiting.append(cell)
        elif changed := differences(cell, found):
            if not again:
                raise StateError(
                    f"{cell.label} in {root} was run with other settings: {'; '.join(changed)}",
                    "its results cannot be compared with those of this command",
                    "name another folder, or redo such cells with --again",
                )
            waiting.append(cell)
    return waiting
