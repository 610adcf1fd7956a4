"""Two newcomers whose first bootstraps are mute: one has an honest one at the end of its list, one has none."""

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from swarmd.experiment.swarms.local_swarm import LocalNode, LocalSwarm, free_port
from swarmd.experiment.swarms.reaper import Reaper
from tests.attack.attackers import Attackers, Scene, reached
from tests.attack.checks import Check
from tests.attack.deeds import MUTE
from tests.attack.looks import look
from tests.attack.ring import hostile_id
from tests.attack.window import Window, window

# A node starts in half a minute beside four others on two busy cores.
JOIN_S = 180.0


@dataclass(frozen=True)
class Newcomers:
    """What came of it; the window is of the two newcomers, `nodes` are they. `idle` and `dead` as the attackers say."""

    window: Window
    checks: list[Check]
    nodes: list[LocalNode]
    idle: list[str]
    dead: list[str]


def run_newcomers(
    root: Path, arguments: Sequence[str], scene: Scene, reaper: Reaper, seconds: float
) -> Newcomers:
    """Start mute bootstraps, then both newcomers, and watch them for a time once they are at work."""
    scene = replace(scene, listen=(free_port(), free_port()))
    mute = [f"/ip4/127.0.0.1/tcp/{port}/p2p/{mute_peer_id(scene.seed)}" for port in scene.listen]
    lists = {"late": [*mute, scene.victims[0]], "alone": mute}
    with (
        Attackers([[MUTE]], scene, reaper, root.with_name("attackers.log")) as attackers,
        contextlib.ExitStack() as stack,
    ):
        attackers.wait_until_begun()
        nodes: dict[str, LocalNode] = {}
        began = time.monotonic()
        for number, (name, bootstraps) in enumerate(lists.items()):
            extra = [word for address in bootstraps for word in ("--bootstrap", address)]
            swarm = stack.enter_context(
                LocalSwarm(root / name, 1, scene.seed + 1000 + number, (*arguments, *extra))
            )
            swarm.start()
            nodes[name] = replace(swarm.nodes[0], name=f"newcomer {name}")
            if nodes[name].process is not None:
                reaper.watch(nodes[name].process.pid)  # type: ignore[union-attr]
        honest = {address.rsplit("/", 1)[1] for address in scene.victims}
        joined_s = _wait(nodes["late"], honest, began)
        rounds_s = _wait(nodes["alone"], frozenset(), began)
        found = window(list(nodes.values()), seconds, attackers)
        # It waits to be called: a bootstrap that no newcomer dialled attacked nobody.
        idle = [] if reached(attackers.counted.get(MUTE, {})) else [MUTE]
        dead = attackers.dead()
    return Newcomers(
        found,
        [
            Check(
                "a newcomer gets past two mute bootstraps to an honest peer and to rounds",
                joined_s is not None,
                _told(joined_s),
            ),
            Check(
                "a newcomer with mute bootstraps alone does its rounds", rounds_s is not None, _told(rounds_s)
            ),
        ],
        list(nodes.values()),
        idle,
        dead,
    )


def mute_peer_id(seed: int) -> str:
    """Whom the mute bootstraps are said to be; the one that finishes Noise is."""
    return hostile_id(MUTE, seed)


def _wait(node: LocalNode, peers: set[str] | frozenset[str], began: float) -> float | None:
    """Seconds until it had three rounds and, if there are any, one of these peers; None when that did not come."""
    while time.monotonic() < began + JOIN_S:
        found = look(node)
        if found.round >= 3 and (not peers or found.peers & peers):
            return time.monotonic() - began
        time.sleep(0.5)
    return None


def _told(seconds: float | None) -> str:
    return f"after {seconds:.0f} s" if seconds is not None else f"not within {JOIN_S:.0f} s"
