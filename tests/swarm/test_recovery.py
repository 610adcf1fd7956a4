"""Deaths: of the libp2p objects, of the process, of the bootstrap."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from tests.swarm.nodes import Node, batch, swarm, until


async def test_a_dead_pubsub_is_replaced_on_the_same_port_with_the_same_identity(nursery):
    first, second = await swarm(nursery, 2)
    port = first.service._listen.port
    kill(first)
    await until(lambda: first.service._counters["host_deaths"] == 1)
    await first.meshed(1)
    assert first.service._listen.port == port
    assert [peer.peer_id for peer in await second.service.peers()] == [first.peer_id]


async def test_batches_flow_after_a_rebuild(nursery):
    first, second = await swarm(nursery, 2)
    kill(first)
    await until(lambda: first.service._counters["host_deaths"] == 1)
    await first.meshed(1)
    await second.meshed(1)
    await first.service.publish(batch(1))
    await until(lambda: second.received)


async def test_a_restarted_node_is_heard_also_when_it_spoke_much_before(nursery):
    first, second = await swarm(nursery, 2)
    for counter in range(12):
        await second.service.publish(batch(2, counter=counter))
    await until(lambda: len(first.received) == 12)
    await second.stop()
    again = await Node(2, [first.address]).start(nursery)
    await again.meshed(1)
    await again.service.publish(batch(2, counter=100))
    await until(lambda: len(first.received) == 13)


async def test_a_killed_bootstrap_breaks_nobody_and_is_found_again(nursery):
    bootstrap, address = await spawn(0)
    second = await Node(2, [address]).start(nursery)
    third = await Node(3, [address]).start(nursery)
    await second.meshed(2)
    bootstrap.kill()
    await until(lambda: len(second.service._connections.since) == len(third.service._connections.since) == 1)
    await third.service.publish(batch(3))
    await until(lambda: second.received)
    reborn, _ = await spawn(int(address.split("/")[4]))
    await second.meshed(2)
    reborn.kill()


@pytest.fixture(autouse=True)
def _no_child_outlives_its_test():
    yield
    for child in _CHILDREN:
        child.kill()
        child.wait()
    _CHILDREN.clear()


_CHILDREN: list[subprocess.Popen[str]] = []


async def spawn(port: int) -> tuple[subprocess.Popen[str], str]:
    """A bootstrap in a process of its own, and its address."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.swarm.lone_node", str(port)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    _CHILDREN.append(child)
    assert child.stdout is not None
    return child, json.loads(await trio.to_thread.run_sync(child.stdout.readline))["addresses"][0]


def kill(node: Node) -> None:
    """What a stranger's bytes did to stock py-libp2p: an exception in a task of pubsub."""

    async def die() -> None:
        raise RuntimeError("as from a malformed message")

    stack = node.service._stack
    assert stack is not None
    stack.pubsub.manager.run_task(die)
