"""What only the wiring decides: settings that reach the loops as a function."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from swarmd.config import load_config
from swarmd.node.parts import Node
from swarmd.node.wiring import make_ingest
from tests.experience.batches import batch
from tests.loops.parts import ME, Loops


class Buffer:
    """Remembers the rewards it was given."""

    def add(self, verified: Any, prompts: list[str], rewards: list[list[float]], **when: Any) -> None:
        self.rewards, self.proven = rewards, when["proven"]


@pytest.mark.parametrize(("spread_min", "first"), [("0.05", [0.02, 0.02]), ("0", [0.01, 0.03])])
def test_crumbs_from_outside_are_levelled_before_they_are_stored(spread_min: str, first: list[float]) -> None:
    loops, buffer = Loops(), Buffer()
    _, inbox = trio.open_memory_channel[bytes](1)
    node = SimpleNamespace(
        config=load_config(flags={"experience.reward_spread_min": spread_min}),
        scorer=loops.scoring,
        identity=ME,
        buffer=buffer,
        manifest=loops.manifest,
        run_blocking=None,
        progress=loops.progress,
        metrics=loops.metrics,
        now_ms=lambda: 1,
        trust=loops.trust,
    )
    make_ingest(cast(Node, node), inbox).add(batch("ann", [1]), [], [[0.01, 0.03], [1.0, 0.0]])
    assert (buffer.rewards, buffer.proven) == ([pytest.approx(first), [1.0, 0.0]], False)
