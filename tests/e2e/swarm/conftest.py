"""One swarm of three real nodes for all tests of this folder: what only looks comes first, what kills comes last."""

from collections.abc import Iterator

import pytest

from swarmd.experiment.swarms.local_swarm import LocalSwarm
from tests.e2e.watch import FAST, rounds, until

SETTINGS = (*FAST, "--set", "update.external_weighting=tapered", "--set", "update.mismatch=token")


@pytest.fixture(scope="package")
def swarm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSwarm]:
    """Three nodes that have done three rounds each. It ends with the folder's last test: nodes at work take all cores."""
    with LocalSwarm(tmp_path_factory.mktemp("swarm"), 3, seed=1, arguments=SETTINGS) as swarm:
        swarm.start()
        for node in swarm.nodes:
            until(lambda node=node: rounds(node) >= 3, "three rounds", node)
        yield swarm


@pytest.fixture(scope="package")
def persons() -> set[str]:
    """The peer ids of those who have contributed to the swarm beside its nodes."""
    return set()
