"""Real hosts on 127.0.0.1, stock or hardened, and the waits the tests share. Most tests run on both: stock must show the defect."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import trio
from libp2p import new_host
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.custom_types import TProtocol
from libp2p.peer.peerinfo import PeerInfo
from libp2p.pubsub.gossipsub import PROTOCOL_ID_V11, PROTOCOL_ID_V12, GossipSub
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub
from libp2p.pubsub.validators import PUBSUB_SIGNING_PREFIX
from libp2p.tools.anyio_service import background_trio_service
from libp2p.utils import encode_varint_prefixed
from multiaddr import Multiaddr

from swarmd.swarm import hardening
from swarmd.swarm.places import Places

STOCK, HARDENED = "stock", "hardened"
both = pytest.mark.parametrize("kind", [STOCK, HARDENED])
ANY_PORT = Multiaddr("/ip4/127.0.0.1/tcp/0")
ECHO = TProtocol("/test/echo/1")
TOPIC = "topic"
# How long a test waits for what must happen, on a machine that others use as well; and for what must not happen.
LONG_S, SHORT_S = 60.0, 2.0


@dataclass
class Node:
    host: Any
    router: Any
    pubsub: Any
    counters: Any

    @property
    def peer_id(self) -> Any:
        return self.host.get_id()


def make_host(
    kind: str, *, inbound_max: int = 50, pending_per_ip_max: int = 50, **settings: Any
) -> tuple[Any, Any]:
    """A host not yet running, and its counters (None for stock)."""
    key_pair = settings.pop("key_pair", None) or create_new_key_pair()
    settings.setdefault("sec_opt", hardening.security_options(key_pair))
    if kind == STOCK:
        return new_host(key_pair=key_pair, **settings), None
    host = new_host(key_pair=key_pair, muxer_opt=hardening.muxer_options(), **settings)
    counters = hardening.harden_host(host, Places(inbound_max, 50, 50, 50, pending_per_ip_max))
    return host, counters


def make_router(kind: str, **settings: Any) -> Any:
    """Stock gets what swarmd would give it; the traps that are defaults stay defaults."""
    settings = {"degree": 8, "degree_low": 6, "degree_high": 16, "heartbeat_interval": 1} | settings
    return (GossipSub if kind == STOCK else hardening.HardenedGossipSub)(
        [PROTOCOL_ID_V12, PROTOCOL_ID_V11], **settings
    )


def make_pubsub(kind: str, *, router: dict[str, Any] | None = None, **settings: Any) -> Node:
    """A host, a router and a pubsub that do not run."""
    host, counters = make_host(kind)
    gossip = make_router(kind, **(router or {}))
    return Node(
        host,
        gossip,
        (Pubsub if kind == STOCK else hardening.HardenedPubsub)(host, gossip, **settings),
        counters,
    )


@asynccontextmanager
async def running(kind: str, *, router: dict[str, Any] | None = None, **settings: Any) -> AsyncIterator[Node]:
    """A running node; its listeners are closed at the end, also after a crash."""
    node = make_pubsub(kind, router=router, **settings)
    node.host.set_stream_handler(ECHO, echo)
    finished = False
    try:
        async with (
            node.host.run(listen_addrs=[ANY_PORT]),
            background_trio_service(node.pubsub),
            background_trio_service(node.router),
        ):
            await node.pubsub.wait_until_ready()
            yield node
            finished = True
    except ExceptionGroup:
        if not (finished and kind == STOCK):  # stock also fails now and then when it is closed under traffic
            raise
    finally:
        await hardening.close_listeners(node.host)


async def echo(stream: Any) -> None:
    await stream.write(await stream.read(100))
    await stream.close()


async def connect(one: Node, other: Node) -> None:
    """Connect, and wait until both have a pubsub stream to each other."""
    await one.host.connect(PeerInfo(other.peer_id, other.host.get_addrs()))
    await one.pubsub.wait_for_peer(other.peer_id)
    await other.pubsub.wait_for_peer(one.peer_id)


async def connect_in_topic(one: Node, other: Node) -> tuple[Any, Any]:
    """Connect, subscribe both, and wait until each is in the other's mesh; returns the subscriptions."""
    subscriptions = await one.pubsub.subscribe(TOPIC), await other.pubsub.subscribe(TOPIC)
    await connect(one, other)
    await one.pubsub.wait_for_mesh(other.peer_id, TOPIC)
    await other.pubsub.wait_for_mesh(one.peer_id, TOPIC)
    return subscriptions


async def becomes(condition: Callable[[], bool], within_s: float = LONG_S, *, expected: bool = True) -> bool:
    """Whether a condition comes true in time; polled, as the state under test has no events.

    Where it is `expected`, a slow machine has time; where it is not, the wait is what the test costs.
    """
    if not expected:
        within_s = min(within_s, SHORT_S)
    with trio.move_on_after(within_s):
        while not condition():
            await trio.sleep(0.01)
        return True
    return condition()


async def answers(node: Node) -> bool:
    """Whether a stranger can connect and have an echo."""
    async with running(HARDENED) as stranger:
        with trio.move_on_after(LONG_S):
            try:
                await stranger.host.connect(PeerInfo(node.peer_id, node.addresses))  # type: ignore[attr-defined]
                stream = await stranger.host.new_stream(node.peer_id, [ECHO])
                await stream.write(b"hello")
                return bool(await stream.read(5) == b"hello")
            except Exception:
                return False
    return False


async def survives(kind: str, deed: Callable[[Node, Node], Awaitable[None]], **settings: Any) -> bool:
    """Run a victim, let a connected peer do something to it, and see whether the victim still answers strangers."""
    died = trio.Event()

    async def live(*, task_status: Any) -> None:
        try:
            async with running(kind, **settings) as victim:
                victim.addresses = victim.host.get_addrs()  # type: ignore[attr-defined]
                task_status.started(victim)
                await trio.sleep_forever()
        except Exception:
            died.set()

    with trio.fail_after(3 * LONG_S):
        async with trio.open_nursery() as nursery:
            victim = await nursery.start(live)
            async with running(HARDENED) as peer:
                await connect(peer, victim)
                await deed(victim, peer)
                with trio.move_on_after(LONG_S if kind == STOCK else 0.3):
                    await died.wait()
                alive = not died.is_set() and await answers(victim)
            nursery.cancel_scope.cancel()
    return alive


def signed_message(author: Node, data: bytes = b"data", topics: Sequence[str] = (TOPIC,)) -> Any:
    """A message as the author's pubsub would make it."""
    message = rpc_pb2.Message(
        data=data, topicIDs=topics, from_id=author.peer_id.to_bytes(), seqno=author.pubsub._next_seqno()
    )
    payload = PUBSUB_SIGNING_PREFIX.encode() + message.SerializeToString()
    message.signature = author.host.get_private_key().sign(payload)
    message.key = author.host.get_public_key().serialize()
    return message


async def send_raw(sender: Node, receiver: Node, data: bytes) -> Any:
    """Write bytes on a fresh pubsub stream, past everything the sender's own pubsub would check."""
    stream = await sender.host.new_stream(receiver.peer_id, [PROTOCOL_ID_V12])
    await stream.write(data)
    return stream


async def send_rpc(sender: Node, receiver: Node, rpc: Any) -> Any:
    """Write one RPC on a fresh pubsub stream."""
    return await send_raw(sender, receiver, encode_varint_prefixed(rpc.SerializeToString()))
