"""One node alone for all tests of this folder, whose update has a process of its own: looked at, killed in part, stopped."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from swarmd.experiment.swarms.local_swarm import LocalNode, LocalSwarm
from tests.e2e.watch import FAST, rounds, until

# Weights are handed over in a folder of /dev/shm that has the node's identity in its name: no other run may have the same.
SEED = os.getpid()
SPLIT = (*FAST, "--solo", "--placement", "split", "--set", "update.learning_rate=1e-3")


@dataclass(frozen=True)
class History:
    """What a node leaves that has done at least three rounds, and was stopped.

    Attributes:
        folders_at_work, folders_left: in which it handed weights over, before the stop and after it.
    """

    root: Path
    folders_at_work: list[Path]
    folders_left: list[Path]


@pytest.fixture(scope="package")
def swarm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSwarm]:
    with LocalSwarm(tmp_path_factory.mktemp("alone"), 1, SEED, arguments=SPLIT) as swarm:
        swarm.start()
        yield swarm


@pytest.fixture
def node(swarm: LocalSwarm) -> LocalNode:
    """A node that has done a round, and goes on until a test asks for its `history`."""
    until(lambda: rounds(swarm.nodes[0]) >= 1, "a round", swarm.nodes[0])
    return swarm.nodes[0]


@pytest.fixture(scope="package")
def history(swarm: LocalSwarm) -> History:
    node = swarm.nodes[0]
    until(lambda: rounds(node) >= 3, "three rounds", node)
    at_work = handed_over(node)
    swarm.stop(evaluate=False)
    assert node.process is not None
    assert node.process.returncode == 0, node.output()
    return History(node.data_dir.root, at_work, handed_over(node))


def handed_over(node: LocalNode) -> list[Path]:
    """The folders in which this node hands weights over."""
    places = (Path("/dev/shm"), node.data_dir.root)
    return [path for place in places for path in place.glob(f"swarmd-weights-{node.identity.peer_id}-*")]
