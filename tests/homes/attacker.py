"""Hostile peers on one machine, until killed: `python -m tests.homes.attacker KIND FIRST_NUMBER COUNT ADDRESS`."""

import itertools
import sys
from collections import Counter
from collections.abc import Awaitable, Callable

import trio
from libp2p.pubsub.pb import rpc_pb2
from libp2p.utils import encode_varint_prefixed

from swarmd.swarm.hardening.quiet_logs import silence_libp2p
from tests.attack.peer import HostilePeer, hostile_peer
from tests.swarm.nodes import MANIFEST, seed

TOPIC = MANIFEST.topic
# RPCs in one write. The reader of a connection takes them as one chunk.
RPCS_AT_ONCE = 50


async def squat(peer: HostilePeer) -> None:
    """Hold a connection and say nothing; `persist` dials again."""
    await trio.sleep_forever()


async def large_grafts(peer: HostilePeer) -> None:
    """RPCs of 6,800 GRAFTs after a PRUNE."""
    await _flood(
        peer, rpc_pb2.RPC(control={"prune": [{"topicID": TOPIC}], "graft": [{"topicID": TOPIC}] * 6800}), 1
    )


async def small_grafts(peer: HostilePeer) -> None:
    """RPCs within every bound, as many as go in."""
    control = {"prune": [{"topicID": TOPIC}] * 4, "graft": [{"topicID": TOPIC}] * 4}
    await _flood(peer, rpc_pb2.RPC(control=control), RPCS_AT_ONCE)


async def subscriptions(peer: HostilePeer) -> None:
    """Leave and join, as often as goes in."""
    words = [{"subscribe": number % 2 == 1, "topicid": TOPIC} for number in range(2)]
    for word in itertools.cycle(words):
        await _send(peer, rpc_pb2.RPC(subscriptions=[word]), RPCS_AT_ONCE)


async def _flood(peer: HostilePeer, rpc: rpc_pb2.RPC, at_once: int) -> None:
    while True:
        await _send(peer, rpc, at_once)


async def _send(peer: HostilePeer, rpc: rpc_pb2.RPC, at_once: int) -> None:
    await peer.write(encode_varint_prefixed(rpc.SerializeToString()) * at_once)
    if not peer.num_connected:
        await trio.sleep(0.1)
    await trio.lowlevel.checkpoint()


KINDS: dict[str, Callable[[HostilePeer], Awaitable[None]]] = {
    "squat": squat,
    "large-grafts": large_grafts,
    "small-grafts": small_grafts,
    "subscriptions": subscriptions,
}


async def main(kind: str, first: int, count: int, address: str) -> None:
    """So many identities do the same."""
    async with trio.open_nursery() as nursery:
        for number in range(first, first + count):
            nursery.start_soon(_one, kind, number, address)


async def _one(kind: str, number: int, address: str) -> None:
    async with hostile_peer(seed(number), TOPIC, Counter(), [address], listens=kind != "squat") as peer:
        await KINDS[kind](peer)


if __name__ == "__main__":
    silence_libp2p()
    trio.run(main, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
