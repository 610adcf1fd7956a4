"""For all tests: no judgement by the clock, one thread a process, and which worker of `make test` runs what."""

import gc
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Hypothesis judges what a test does and not how long a busy machine takes for it.
settings.register_profile("no-clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no-clock")

# Before torch is imported, here and in every child: the models are small, and other workers have the other cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Collecting makes objects that stay: a search of them for garbage finds none, and each later one would go through all of them.
gc.disable()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


# A node is five processes. One worker runs all swarms of several nodes, one after another, and begins with them. The others
# begin with nodes alone and experiments: whatever takes long has company until the end.
SWARMS = tuple(
    f"tests/e2e/{name}" for name in ("swarm/", "test_demo", "test_unlike_nodes", "test_weightings")
)
NODES = ("tests/e2e/", "tests/experiment/swarms/")
# Files that share a node: one worker runs all of them.
ONE_NODE = "tests/e2e/alone/"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # one of several workers
        items.sort(key=lambda item: (not item.nodeid.startswith(SWARMS), not item.nodeid.startswith(NODES)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """One worker runs a whole file, whose tests share fixtures, and all files that share a node or have swarms of several."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduler(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith((ONE_NODE, *SWARMS)):
                return ONE_NODE if nodeid.startswith(ONE_NODE) else "swarms"
            return str(super()._split_scope(nodeid))

    return Scheduler(config, log)
