"""A child of a real node that is stopped: health turns, the child is replaced, and the node makes rounds again by itself."""

import os
import signal
import time
from pathlib import Path

import pytest

from swarmd.experiment.swarms.local_swarm import LocalSwarm
from tests.e2e.watch import FAST, restarts, rounds, status, until


@pytest.mark.slow
def test_a_stopped_child_of_each_kind_turns_health_and_is_replaced(tmp_path: Path) -> None:
    with LocalSwarm(tmp_path, 2, seed=5, arguments=FAST) as swarm:
        swarm.start()
        node = swarm.nodes[0]
        until(lambda: rounds(node) > 5, "rounds", node)
        for worker in ("generation", "scorer", "network"):
            until(lambda: not unhealthy(node), "a healthy node", node)
            before, began_s = restarts(node, worker), time.monotonic()
            os.kill(status(node)["workers"][worker]["pid"], signal.SIGSTOP)
            codes = until(lambda: unhealthy(node), "health that turns", node)
            turned_s = time.monotonic() - began_s
            until(
                lambda worker=worker, before=before: (
                    restarts(node, worker) > before and status(node)["workers"][worker]["up"]
                ),
                f"another {worker}",
                node,
            )
            done = rounds(node)
            until(lambda done=done: rounds(node) > done + 2, "more rounds", node)
            healed_s = time.monotonic() - began_s
            print(f"\n{worker}: {codes[0]} after {turned_s:.0f} s, rounds again after {healed_s:.0f} s")


def unhealthy(node: object) -> list[str]:
    return [finding["code"] for finding in status(node).get("health", ()) if finding["unhealthy"]]  # type: ignore[arg-type]
