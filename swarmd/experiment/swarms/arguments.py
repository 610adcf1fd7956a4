"""What `swarmd start` is given for one node of a cell."""

from pathlib import Path
from typing import Any

from swarmd.experiment.cell import Cell, rounds_of, settings_of
from swarmd.experiment.swarms.models import model_setting


def node_arguments(cell: Cell, number: int, experiment: Path | None = None) -> list[str]:
    """What `swarmd start` is given for one node, beside its directory, addresses and ports.

    Args:
        experiment: the folder that holds models built for it; None: names stay names.
    """
    node = cell.nodes[number]
    settings = settings_of(cell, node)
    if experiment is not None:
        settings["policy.model"] = model_setting(settings["policy.model"], experiment)
    arguments = ["--rounds", str(rounds_of(cell, node))]
    for key, value in settings.items():
        arguments += ["--set", f"{key}={as_text(value)}"]
    return arguments


def as_text(value: Any) -> str:
    """A setting's value as `--set` takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
