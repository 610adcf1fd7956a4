"""A few cells, and a fake that runs them, for the tests of whatever runs cells."""

import io
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from swarmd.experiment.arms import ARMS
from swarmd.experiment.cell import Cell
from swarmd.experiment.presets import PRESETS
from swarmd.experiment.running.cell_process import Command
from swarmd.experiment.running.cells import cells_of
from swarmd.experiment.running.progress import Display

SMOKE = replace(PRESETS["smoke"], num_nodes=2, rounds=3)
FAKE = Path(__file__).with_name("fake_cell.py")


def some_cells(
    arms: Sequence[str] = ("8/0", "4/4"), seeds: Sequence[int] = (0, 1), **settings: str
) -> list[Cell]:
    """Two arms with two seeds, unless said otherwise; `settings` write a key's dot as two underscores."""
    others = {key.replace("__", "."): value for key, value in settings.items()}
    preset = replace(SMOKE, settings={**SMOKE.settings, **others})
    return cells_of(preset, [ARMS[name] for name in arms], seeds, ["alike"])


def fake(how: str = "done", **by_arm: str) -> Command:
    """What runs the fake; `by_arm` names other manners by the arm's folder, with `_` for `-`."""

    def command(folder: Path, deadline_s: float | None) -> list[str]:
        manner = by_arm.get(f"arm_{folder.parent.name.replace('-', '_')}", how)
        return [sys.executable, "-S", str(FAKE), str(folder), manner, str(deadline_s or 1e12)]

    return command


def quiet() -> tuple[Display, io.StringIO]:
    """A display without a terminal, and what it says."""
    out = io.StringIO()
    return Display(out, terminal=False), out
