"""The commands that start a cell's nodes, for people with several machines."""

import json
import shlex
from dataclasses import asdict, replace
from pathlib import Path

from swarmd.experiment.cell import identity_seed
from swarmd.experiment.running.plan import PlannedCell
from swarmd.experiment.swarms.arguments import node_arguments
from swarmd.protocol.signing import Identity

PORT = 4810


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
