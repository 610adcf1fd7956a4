"""The commands that start a cell's nodes, for people with several machines."""

import shlex
from dataclasses import replace
from pathlib import Path

from swarmd.experiment.cell import Cell, identity_seed, node_arguments
from swarmd.protocol.signing import Identity

PORT = 4810


def start_commands(cell: Cell, root: Path) -> list[str]:
    """Shell lines: each node's identity and its start, then the cell's description for a report, once all have ended.

    Folders are those of a cell in an experiment at `root`. `ADDRESS-0` stands for the first node's address.
    """
    folder = cell.folder(root)
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
            command += ["--bootstrap", f"/ip4/ADDRESS-0/tcp/{PORT}/p2p/{first}"]
        late = f"   # once the others have done round {node.joins_at_round}" if node.joins_at_round else ""
        lines.append(shlex.join([*command, *node_arguments(cell, node)]) + late)
    done = replace(cell, status="done", num_rounds_done=cell.rounds)
    return [*lines, f"echo {shlex.quote(done.to_json())} > {folder / 'cell.json'}"]
