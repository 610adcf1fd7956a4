"""One cell of an experiment: one arm, one seed, one scenario. `swarmd.experiment.run_cell` is the process that runs it."""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from swarmd.errors import ConfigError, StateError
from swarmd.files.atomic import write_atomically

Status = Literal["pending", "done", "stopped", "failed"]
OnProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class NodeSpec:
    """One node of a cell.

    Attributes:
        model: as `swarmd start --model` takes it.
        speed: rounds of its own in one round of a normal node.
        settings: `section.key` to value, over those of the arm.
        joins_at_round: rounds of a normal node after which this one starts.
        rounds_after: rounds of a normal node for which this one goes on when the others have ended.
        datasets: those it asks; all when empty.
    """

    name: str
    model: str = "tiny"
    speed: float = 1.0
    settings: Mapping[str, Any] = field(default_factory=dict)
    joins_at_round: int = 0
    rounds_after: int = 0
    datasets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cell:
    """What `cell.json` holds. `rounds` is how many a normal node does that is there from the start."""

    scenario: str
    arm: str
    settings: Mapping[str, Any]
    seed: int
    nodes: tuple[NodeSpec, ...]
    rounds: int
    runner: Literal["simulation", "processes"] = "simulation"
    status: Status = "pending"
    num_rounds_done: int = 0
    seconds: float = 0.0
    error: str = ""

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Read `cell.json`. Raises StateError when it is missing or not one."""
        path = directory / "cell.json"
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            nodes = tuple(
                NodeSpec(**{**node, "datasets": tuple(node.get("datasets", ()))})
                for node in document.pop("nodes")
            )
            return cls(**document, nodes=nodes)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise StateError(
                f"cannot read {path}", f"{type(error).__name__}: {error}", "run the experiment again"
            ) from None

    def save(self, directory: Path) -> None:
        """Write `cell.json`, at once or not at all."""
        directory.mkdir(parents=True, exist_ok=True)
        write_atomically(directory / "cell.json", json.dumps(asdict(self), indent=1).encode() + b"\n")

    @property
    def end(self) -> int:
        """Rounds of a normal node until the last to join has had its own; everybody goes on until then."""
        return self.rounds + max(node.joins_at_round for node in self.nodes)

    @property
    def spec(self) -> dict[str, Any]:
        """What decides the outcome; the rest is how it went."""
        outcome = ("status", "num_rounds_done", "seconds", "error")
        return {key: value for key, value in asdict(self).items() if key not in outcome}


def settings_of(cell: Cell, node: NodeSpec) -> dict[str, Any]:
    """`section.key` to value of one node: its model and datasets, then the cell's, then its own."""
    datasets = {"questions.datasets": ",".join(node.datasets)} if node.datasets else {}
    return {"policy.model": node.model, **datasets, **cell.settings, **node.settings}


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
