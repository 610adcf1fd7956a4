"""The commands that start a cell's nodes: for the runner over real processes, and for people with several machines."""

import hashlib
import json
import shlex
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from swarmd.experiment.cell import Cell
from swarmd.experiment.running.plan import PlannedCell, rounds_of, settings_of
from swarmd.experiment.swarms.models import model_setting
from swarmd.protocol.signing import Identity

PORT = 4810


def identity_seed(seed: int, number: int) -> bytes:
    """The 32-byte identity of node `number` in every cell of one seed, so that its questions are the same in every arm."""
    return hashlib.sha256(f"swarmd experiment {seed} {number}".encode()).digest()


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


def start_commands(planned: PlannedCell, root: Path) -> list[str]:
    """Shell lines: each node's identity and its start, then the cell's description for a report, once all have ended.

    Folders are those of a cell in an experiment at `root`. `HOST-0` stands for the first node's address.
    """
    cell, folder = planned.cell, planned.folder(root)
    first = Identity.from_seed(identity_seed(cell.seed, 0)).peer_id
    lines = []
    for number, node in enumerate(cell.nodes):
        data_dir = folder / node.name
        code = (
            f"import sys; sys.stdout.buffer.write(bytes.fromhex('{identity_seed(cell.seed, number).hex()}'))"
        )
        lines.append(f'mkdir -p {data_dir} && (umask 077; python3 -c "{code}" > {data_dir / "identity.key"})')
        command = ["swarmd", "start", "--data-dir", str(data_dir), "--port", str(PORT)]
        if number:
            command += ["--bootstrap", f"/ip4/HOST-0/tcp/{PORT}/p2p/{first}"]
        late = f"   # once the others have done round {node.joins_at_round}" if node.joins_at_round else ""
        lines.append(shlex.join([*command, *node_arguments(cell, number)]) + late)
    done = replace(cell, status="done", num_rounds_done=cell.rounds)
    return [*lines, f"echo {shlex.quote(json.dumps(asdict(done)))} > {folder / 'cell.json'}"]
