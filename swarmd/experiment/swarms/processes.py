"""A cell over real nodes: `swarmd start` processes that find each other over libp2p on this machine.

Data directories are the cell's own node folders, so records lie where a report looks for them, and a cell that was stopped goes on
from its nodes' checkpoints. Leaves no process behind, however it ends.
"""

import os
import shutil
import time
from pathlib import Path

from swarmd.errors import LocalError
from swarmd.experiment.cell import (
    Cell,
    OnProgress,
    Stopped,
    experiment_of,
    node_arguments,
    require_equal_speeds,
    rounds_of,
)
from swarmd.experiment.swarms.local_swarm import LocalNode, LocalSwarm
from swarmd.experiment.swarms.reaper import Reaper
from swarmd.node.checkpoints import last_round

_TICK_S = 0.5
_WORDS = 1500


def run_cell(cell: Cell, directory: Path, *, deadline_s: float | None, on_progress: OnProgress) -> None:
    """Run a cell; every node does its rounds and its last evaluation.

    Raises:
        Stopped: at `deadline_s` (Unix time), after every node has ended its round.
        ConfigError: a node of another speed, which real nodes cannot be given.
        LocalError: a node ended too early.
    """
    require_equal_speeds(cell.nodes)
    swarm = LocalSwarm(
        directory.absolute(),
        len(cell.nodes),
        cell.seed,
        arguments=_only_these_settings(directory),
        environment_of=devices(cell, os.environ.get("CUDA_VISIBLE_DEVICES")),
    )
    with Reaper() as reaper, swarm:
        swarm.arguments_of = {
            number: _arguments(cell, swarm, number, experiment_of(directory))
            for number in range(swarm.num_nodes)
        }
        try:
            _watch(cell, swarm, reaper, deadline_s, on_progress)
        except (Stopped, KeyboardInterrupt):
            swarm.stop(evaluate=False)
            raise
    for node in swarm.nodes:
        _drop_what_nobody_reads(node)


def devices(cell: Cell, visible: str | None) -> dict[int, dict[str, str]]:
    """Each node's own GPU, by number, where the model is to run on CUDA: one after the other, and around again.

    Args:
        visible: CUDA_VISIBLE_DEVICES of this process.
    """
    from swarmd.node.children import count_gpus

    if cell.settings.get("policy.device") != "cuda":
        return {}
    there = (
        [part.strip() for part in visible.split(",") if part.strip()]
        if visible is not None
        else list(map(str, range(count_gpus())))
    )
    return {
        number: {"CUDA_VISIBLE_DEVICES": there[number % len(there)]}
        for number in range(len(cell.nodes))
        if there
    }


def _only_these_settings(directory: Path) -> list[str]:
    """An empty configuration file: what this machine's own nodes are configured with is none of an experiment's business."""
    path = directory / "empty.toml"
    path.write_text("# settings are on the command line\n", encoding="utf-8")
    return ["--config", str(path)]


def _arguments(cell: Cell, swarm: LocalSwarm, number: int, experiment: Path) -> list[str]:
    """A node's own; it knows all nodes before it, so that it finds the swarm whichever of them has ended already."""
    arguments = node_arguments(cell, cell.nodes[number], experiment)
    for other in swarm.nodes[1:number]:
        arguments += ["--bootstrap", other.address]
    return arguments


def _watch(
    cell: Cell, swarm: LocalSwarm, reaper: Reaper, deadline_s: float | None, on_progress: OnProgress
) -> None:
    """Start nodes when it is their time, until all have done their rounds."""
    wanted = [rounds_of(cell, node) for node in cell.nodes]
    end = max(wanted)
    told = -1
    while True:
        done = [last_round(node.data_dir) for node in swarm.nodes]
        there = [done[k] for k, node in enumerate(cell.nodes) if not node.joins_at_round]
        now = min(there, default=cell.rounds)
        for number, node in enumerate(swarm.nodes):
            if node.process is None and done[number] < wanted[number]:
                if cell.nodes[number].joins_at_round <= now:
                    _start(swarm, number, reaper)
            elif node.process is not None and not node.running:
                _check_end(node, done[number], wanted[number])
        progress = min(end - left for left in (w - d for w, d in zip(wanted, done, strict=True)))
        if progress != told:
            told = progress
            on_progress(progress, end)
        if not any(node.running for node in swarm.nodes) and progress >= end:
            return
        if deadline_s is not None and time.time() >= deadline_s:
            raise Stopped(min(done))
        time.sleep(_TICK_S)


def _start(swarm: LocalSwarm, number: int, reaper: Reaper) -> None:
    swarm.start(number)
    process = swarm.nodes[number].process
    assert process is not None
    reaper.watch(process.pid)


def _check_end(node: LocalNode, num_done: int, wanted: int) -> None:
    code = node.process.returncode if node.process else None
    if num_done < wanted or code != 0:
        words = " / ".join(node.output()[-_WORDS:].strip().splitlines()[-3:])
        raise LocalError(
            f"{node.name} ended after round {num_done} of {wanted} with code {code}",
            words,
            f"its whole output is in {node.data_dir.root / 'output.log'}",
        )


def _drop_what_nobody_reads(node: LocalNode) -> None:
    """A finished cell keeps records, logs and its last checkpoint."""
    shutil.rmtree(node.data_dir.cache, ignore_errors=True)
    for path in node.data_dir.root.glob(f"{node.data_dir.buffer.name}*"):
        path.unlink(missing_ok=True)
