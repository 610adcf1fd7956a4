"""Attacks by the fields beneath a message: RPCs of the agreed size, out of any bound inside; names and talk of any length."""

import itertools
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import trio
from libp2p.identity.identify.pb.identify_pb2 import Identify
from libp2p.identity.identify_push.identify_push import ID_PUSH
from libp2p.peer.peerinfo import PeerInfo
from libp2p.pubsub.pb import rpc_pb2
from libp2p.utils import encode_uvarint, encode_varint_prefixed

from tests.attack.peer import HostilePeer
from tests.attack.ring import FRESH_MAX, Ring

# Just under the agreed size of an RPC.
NUM_TOPICS, NUM_GRAFTS = 34_000, 6_000
# A steady identity is banned at the tenth; after so many it makes way for the next.
RPCS_PER_IDENTITY = 20
PACE_S = 0.1
# A stranger that nobody knows yet, on a socket of its own: it announces a name of 2 GiB and goes on sending it for this long.
NAMING_S = 2.0
MULTISTREAM = b"\x13/multistream/1.0.0\n"


async def fields(ring: Ring) -> None:
    """All of it at once; one identity after the other breaks bounds, each until it is surely caught."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_long_names, ring)
        nursery.start_soon(_talk, ring)
        for number in itertools.count():
            async with ring.peer(1 + number % FRESH_MAX) as peer, trio.open_nursery() as victims:
                for victim in peer.victims:
                    victims.start_soon(_break_bounds, ring, peer, victim)


async def _break_bounds(ring: Ring, peer: HostilePeer, victim: PeerInfo) -> None:
    """One RPC after the other, and a new connection whenever the victim has had enough."""
    for turn in range(RPCS_PER_IDENTITY):
        await peer.dial(victim)
        await peer.write(BROKEN[turn % len(BROKEN)](ring, peer), [victim])
        await trio.sleep(PACE_S)


async def _talk(ring: Ring) -> None:
    """What is within the bounds, and as much of it as is taken: words on the topic, empty RPCs, pushes."""
    async with ring.peer(0) as peer:
        for turn in itertools.count():
            for victim in peer.victims:
                with trio.move_on_after(1):
                    await peer.write((_words, _nothing)[turn % 2](ring, peer), [victim])
            await _push(ring, peer)
            await trio.sleep(PACE_S)


def _topics(ring: Ring) -> list[str]:
    return [ring.manifest.topic, *(f"{number:05d}" for number in range(NUM_TOPICS))]


def _rpc(**content: Any) -> bytes:
    return encode_varint_prefixed(rpc_pb2.RPC(**content).SerializeToString())


def _unsigned(ring: Ring, peer: HostilePeer) -> bytes:
    """A message of many topics, in nobody's name."""
    message = {"topicIDs": _topics(ring), "from_id": os.urandom(38), "seqno": os.urandom(8)}
    return _rpc(publish=[message])


def _signed(ring: Ring, peer: HostilePeer) -> bytes:
    """The same, rightly signed."""
    return encode_varint_prefixed(rpc_pb2.RPC(publish=[peer.signed(b"", _topics(ring))]).SerializeToString())


def _carrier(ring: Ring, peer: HostilePeer) -> bytes:
    """A rightly signed message with 200 KB in a field that nobody knows."""
    unknown = encode_uvarint(15 << 3 | 2) + encode_varint_prefixed(os.urandom(200_000))
    message = peer.signed(b"", [ring.manifest.topic]).SerializeToString() + unknown
    return encode_varint_prefixed(encode_uvarint(2 << 3 | 2) + encode_varint_prefixed(message))


def _grafts(ring: Ring, peer: HostilePeer) -> bytes:
    """A PRUNE, and then GRAFTs that each want an answer."""
    prune, graft = {"topicID": ring.manifest.topic}, {"topicID": ring.manifest.topic}
    return _rpc(control={"prune": [prune], "graft": [graft] * (NUM_GRAFTS // 2)})


def _words(ring: Ring, peer: HostilePeer) -> bytes:
    """In and out of the topic."""
    return _rpc(
        subscriptions=[
            {"subscribe": number % 2 == 0, "topicid": ring.manifest.topic} for number in range(255)
        ]
    )


def _ids(ring: Ring, peer: HostilePeer) -> bytes:
    """Ids of 100 KB, to be remembered."""
    return _rpc(control={"idontwant": [{"messageIDs": [os.urandom(100_000), os.urandom(100_000)]}]})


def _nothing(ring: Ring, peer: HostilePeer) -> bytes:
    """A hundred thousand empty RPCs."""
    return bytes(100_000)


BROKEN: tuple[Callable[[Ring, HostilePeer], bytes], ...] = (_unsigned, _signed, _carrier, _grafts, _ids)


async def _push(ring: Ring, peer: HostilePeer) -> None:
    """What a stranger says of itself: one address of 100 KB, another each time."""
    push = encode_varint_prefixed(Identify(listen_addrs=[os.urandom(100_000)]).SerializeToString())
    async with trio.open_nursery() as nursery:
        for victim in peer.victims:
            if peer.connected_to(victim):
                nursery.start_soon(_push_to, ring, peer, victim, push)


async def _push_to(ring: Ring, peer: HostilePeer, victim: PeerInfo, push: bytes) -> None:
    with trio.move_on_after(1), suppress(Exception):  # whatever the library says of a stream that is reset
        stream = await peer.open(victim, ID_PUSH)
        ring.counted["streams"] += 1
        await stream.write(push)
        await stream.close()


async def _long_names(ring: Ring) -> None:
    """Strangers that name a protocol without end, before they have proved who they are."""
    while True:
        async with trio.open_nursery() as nursery:
            for victim in ring.victims:
                nursery.start_soon(_long_name, ring, victim)
        await trio.sleep(0.5)


async def _long_name(ring: Ring, victim: str) -> None:
    port = int(victim.split("/tcp/")[1].split("/")[0])
    with trio.move_on_after(NAMING_S), suppress(OSError, trio.BrokenResourceError):
        ring.counted["dials"] += 1
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(MULTISTREAM + encode_uvarint(2**31))
            while True:
                await stream.send_all(bytes(65_536))
                await trio.sleep(0.001)
