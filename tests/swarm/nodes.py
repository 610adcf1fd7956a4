"""Real nodes on loopback, in this process, and messages that the rules accept."""

import random
import time
from collections.abc import Callable
from typing import Any

import trio

from swarmd.clients.events import Accepted, NetworkEvent
from swarmd.protocol.manifest import load_manifest
from swarmd.protocol.signing import Identity
from swarmd.protocol.types import Completion, Rollout, RolloutBatch
from swarmd.swarm.service import NetworkService

MANIFEST = load_manifest("tiny")
LOOPBACK = "/ip4/127.0.0.1/tcp/0"
# Everything here takes well under a second on an idle machine; this is for a busy one.
PATIENCE_S = 60.0


def seed(number: int) -> bytes:
    """A fixed identity seed."""
    return random.Random(number).randbytes(32)


def batch(author: int, counter: int = 0, *, text: str = "<answer>4</answer>", age_ms: int = 0) -> bytes:
    """A sealed message of one rollout with the fewest completions that the manifest takes."""
    rollout = Rollout(
        dataset=0,
        counter=counter,
        completions=tuple(Completion(text=f"{text}{i}", finished=True) for i in range(4)),
    )
    return Identity.from_seed(seed(author)).seal(
        RolloutBatch(rollouts=(rollout,)),
        created_ms=time.time_ns() // 1_000_000 - age_ms,
        policy="test",
        policy_version=0,
    )


class Node:
    """One NetworkService and what it emitted."""

    def __init__(self, number: int, bootstrap: list[str] | None = None, **args: Any) -> None:
        self.events: list[NetworkEvent] = []
        self.service = NetworkService(
            self.events.append,
            identity_seed=seed(number),
            manifest=MANIFEST.to_bytes(),
            bootstrap=bootstrap or [],
            **{"listen": LOOPBACK, **args},
        )
        self.address = ""
        self.peer_id = ""
        self._scope = trio.CancelScope()
        self._ended = trio.Event()

    async def start(self, nursery: trio.Nursery) -> "Node":
        """Running and listening when this returns."""
        described = await nursery.start(self._run)
        self.address, self.peer_id = described.addresses[0], described.peer_id
        return self

    async def _run(self, task_status: Any) -> None:
        with self._scope:
            await self.service.run(task_status=task_status)
        self._ended.set()

    async def stop(self) -> None:
        """Ended and its port free when this returns."""
        self._scope.cancel()
        await self._ended.wait()

    @property
    def received(self) -> list[bytes]:
        return [event.data for event in self.events if isinstance(event, Accepted)]

    async def stat(self, name: str) -> Any:
        return (await self.service.stats()).to_document()[name]

    async def dials(self, result: str) -> int:
        """Own dials that ended so."""
        return (await self.service.stats()).traffic.dials[result]

    async def verdicts(self) -> dict[str, int]:
        """Rules that said anything, with how often."""
        return {rule: n for rule, n in (await self.service.stats()).verdicts.items() if n}

    async def meshed(self, num_peers: int) -> None:
        """Returns once so many neighbours forward for this node."""
        await until(lambda: self._mesh_size() >= num_peers)

    def _mesh_size(self) -> int:
        stack = self.service._stack
        return len(stack.gossipsub.mesh.get(MANIFEST.topic, ())) if stack else 0


async def until(happened: Callable[[], Any]) -> None:
    """The one place where tests wait for the network.

    Raises:
        trio.TooSlowError: it did not happen.
    """
    with trio.fail_after(PATIENCE_S):
        while not happened():
            await trio.sleep(0.02)


async def swarm(nursery: trio.Nursery, num_nodes: int, **args: Any) -> list[Node]:
    """Fully meshed nodes 1..num_nodes that know only the first."""
    nodes = [await Node(1, **args).start(nursery)]
    for number in range(2, num_nodes + 1):
        nodes.append(await Node(number, [nodes[0].address], **args).start(nursery))
    for node in nodes:
        await node.meshed(num_nodes - 1)
    return nodes
