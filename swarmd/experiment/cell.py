"""One cell of an experiment: one arm, one seed, one scenario. `swarmd.experiment.run_cell` is the process that runs it."""

import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from swarmd.config import Config, load_config
from swarmd.errors import ConfigError, StateError
from swarmd.experiment.arms import slug
from swarmd.experiment.swarms.models import model_setting
from swarmd.files.atomic import write_atomically
from swarmd.printable import printable

Runner = Literal["simulation", "processes"]
Status = Literal["pending", "done", "stopped", "failed"]
OnProgress = Callable[[int, int], None]
# Longest name that is shown whole; longer ones would break tables and pictures.
NAME_MAX = 60
_FORM = ConfigDict(extra="forbid", coerce_numbers_to_str=True)


Name = Annotated[str, AfterValidator(partial(printable, length_max=NAME_MAX))]


@dataclass(frozen=True, config=_FORM)
class NodeSpec:
    """One node of a cell.

    Attributes:
        model: as `swarmd start --model` takes it.
        speed: rounds of its own in one round of a normal node.
        settings: `section.key` to value, as `--set` takes it; over those of the arm.
        joins_at_round: rounds of a normal node after which this one starts.
        rounds_after: rounds of a normal node for which this one goes on when the others have ended.
        datasets: those it asks; all when empty.
    """

    name: Name
    model: str = "tiny"
    speed: float = 1.0
    settings: Mapping[Name, str] = field(default_factory=dict)
    joins_at_round: int = 0
    rounds_after: int = 0
    datasets: tuple[Name, ...] = ()


@dataclass(frozen=True, config=_FORM)
class Cell:
    """What `cell.json` holds: what decides the outcome, and from `status` on how it went.

    `rounds` is how many a normal node does that is there from the start.
    """

    scenario: Name
    arm: Name
    settings: Mapping[Name, str]
    seed: int
    nodes: Annotated[tuple[NodeSpec, ...], Field(min_length=1)]
    rounds: int
    runner: Runner = "simulation"
    status: Status = "pending"
    num_rounds_done: int = 0
    seconds: float = 0.0
    error: str = ""

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Read `cell.json`. Raises StateError when it is missing or not one."""
        path = directory / "cell.json"
        try:
            return TypeAdapter(cls).validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise StateError(
                f"cannot read {path}", why_unread(error), f"remove {directory}, and it is run again"
            ) from None

    def save(self, directory: Path) -> None:
        """Write `cell.json`, at once or not at all."""
        directory.mkdir(parents=True, exist_ok=True)
        write_atomically(directory / "cell.json", TypeAdapter(Cell).dump_json(self, indent=1) + b"\n")

    def folder(self, root: Path) -> Path:
        """Where it lies below the experiment's folder."""
        return root / "cells" / self.scenario / slug(self.arm) / f"seed-{self.seed}"

    @property
    def label(self) -> str:
        return f"{self.scenario} {self.arm} seed {self.seed}"

    @property
    def end(self) -> int:
        """Rounds of a normal node until the last to join has had its own; everybody goes on until then."""
        return self.rounds + max(node.joins_at_round for node in self.nodes)

    @property
    def spec(self) -> "Cell":
        """The cell as it was before it was run."""
        return replace(self, status="pending", num_rounds_done=0, seconds=0.0, error="")


def why_unread(error: Exception) -> str:
    """The first thing that is wrong with a file."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")
    return f"{type(error).__name__}: {error}"


def settings_of(cell: Cell, node: NodeSpec, experiment: Path | None = None) -> dict[str, str]:
    """`section.key` to value of one node: its model and datasets, then the cell's, then its own.

    Args:
        experiment: the folder that holds models built for it; None: names stay names.

    Raises:
        StateError: a model was not built.
    """
    datasets = {"questions.datasets": ",".join(node.datasets)} if node.datasets else {}
    settings = {"policy.model": node.model, **datasets, **cell.settings, **node.settings}
    if experiment is not None:
        settings["policy.model"] = model_setting(settings["policy.model"], experiment)
    return settings


def node_arguments(cell: Cell, node: NodeSpec, experiment: Path | None = None) -> list[str]:
    """What `swarmd start` is given for one node, beside its directory, addresses and ports. `experiment` is as above."""
    settings = settings_of(cell, node, experiment).items()
    return [
        "--rounds",
        str(rounds_of(cell, node)),
        *(word for key, value in settings for word in ("--set", f"{key}={value}")),
    ]


def config_of(cell: Cell, node: NodeSpec) -> Config:
    """The settings in force in one node. Raises ConfigError when no node could be started with them."""
    return load_config(flags=settings_of(cell, node), environ={})


def rounds_of(cell: Cell, node: NodeSpec) -> int:
    """Rounds that a node does: a normal one the cell's, from when the last joiner starts; one that is fast or stays on more."""
    return max(1, round((cell.end - node.joins_at_round + node.rounds_after) * node.speed))


def require_equal_speeds(nodes: Sequence[NodeSpec]) -> None:
    """Raises ConfigError for a node that is to be slower or faster than its machine makes it."""
    for node in nodes:
        if node.speed != 1.0:
            raise ConfigError(
                f"{node.name} is to run at {node.speed} times the speed of others",
                "a real node is as fast as its machine",
                "scenarios with speeds need --runner simulation",
            )


def identity_seed(seed: int, number: int) -> bytes:
    """The 32-byte identity of node `number` in every cell of one seed, so that its questions are the same in every arm."""
    return hashlib.sha256(f"swarmd experiment {seed} {number}".encode()).digest()


def experiment_of(cell_dir: Path) -> Path:
    """The experiment's folder of a cell's, which is cells/SCENARIO/ARM/seed-N below it."""
    return cell_dir.absolute().parents[3]


def scratch_of(pid: int) -> Path:
    """Where a simulation in that process keeps what nobody reads later; in memory, where the system has such a place."""
    memory = Path("/dev/shm")
    parent = memory if memory.is_dir() else Path(tempfile.gettempdir())
    return parent / f"swarmd-cell-{os.getuid()}-{pid}"


class Stopped(Exception):
    """The deadline came first; `num_rounds` are done."""

    def __init__(self, num_rounds: int) -> None:
        super().__init__(f"stopped by the deadline after {num_rounds} rounds")
        self.num_rounds = num_rounds
