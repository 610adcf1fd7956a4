"""A hostile peer on swarmd's own host stack: it connects, hears what the swarm says, and sends any bytes to anybody."""

from collections import Counter, deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import trio
from libp2p.peer.peerinfo import PeerInfo, info_from_p2p_addr
from libp2p.pubsub.gossipsub import PROTOCOL_ID_V12
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.validators import PUBSUB_SIGNING_PREFIX
from libp2p.utils import encode_varint_prefixed
from multiaddr import Multiaddr

from swarmd.config.network_section import NetworkLimits
from swarmd.protocol.signing import Identity
from swarmd.swarm.addresses import parse_listen
from swarmd.swarm.hardening.seqno import first_seqno
from swarmd.swarm.host import Stack, build

LOOPBACK = "/ip4/127.0.0.1/tcp/0"
# A victim that does not read holds its writer up; an attacker goes on with the next.
WRITE_S = 8.0
# The library tries three times, 5 s each; who gives up sooner on a busy machine only starts over.
OPEN_S = 20.0
CONNECT_S = 10.0
REDIAL_S = 2.0
HEARD_MAX = 500


class HostilePeer:
    """One identity. `counted` is shared by all peers of an attack: `sent` and `refused` messages, `dials`, `dials_refused`."""

    def __init__(self, stack: Stack, seed: bytes, topic: str, counted: Counter[str]) -> None:
        self.stack, self.identity, self.topic, self.counted = stack, Identity.from_seed(seed), topic, counted
        self.heard: deque[bytes] = deque(maxlen=HEARD_MAX)
        self.victims: list[PeerInfo] = []
        self._streams: dict[Any, Any] = {}
        self._seqno = first_seqno()

    async def connect(self, addresses: Sequence[str]) -> None:
        """Dial these; who refuses is counted and left out."""
        async with trio.open_nursery() as nursery:
            for address in addresses:
                nursery.start_soon(self._meet, info_from_p2p_addr(Multiaddr(address)))

    async def _meet(self, info: PeerInfo) -> None:
        self.victims.append(info)
        self.counted["dials"] += 1
        if not await self._dialled(info):
            self.counted["dials_refused"] += 1

    async def persist(self) -> None:
        """Dial again whom there is no connection to, for ever."""
        while True:
            await trio.sleep(REDIAL_S)
            for info in list(self.victims):
                if not self.connected_to(info):
                    self.counted["dials"] += 1
                    await self._dialled(info)

    async def dial(self, victim: PeerInfo) -> None:
        """Connect again, if need be, without waiting as `persist` does."""
        if not self.connected_to(victim):
            self.counted["dials"] += 1
            await self._dialled(victim)

    def connected_to(self, info: PeerInfo) -> bool:
        """Whether a connection to this victim stands."""
        return bool(self.stack.host.get_network().get_connections(info.peer_id))

    async def _dialled(self, info: PeerInfo) -> bool:
        with trio.move_on_after(CONNECT_S), suppress(Exception):
            if not self.connected_to(info):
                await self.stack.host.get_network().dial_addr(info.addrs[0], info.peer_id)
            return True
        return False

    @property
    def num_connected(self) -> int:
        """Connections that stand now."""
        return len(self.stack.host.get_network().connections)

    async def send(
        self, data: bytes, victims: Sequence[PeerInfo] | None = None, topic: str | None = None
    ) -> None:
        """One pubsub message, correctly signed by this peer, written to each victim."""
        message = self.signed(data, [topic or self.topic])
        await self.send_rpc(rpc_pb2.RPC(publish=[message]), victims)

    def signed(self, data: bytes, topics: Sequence[str]) -> Any:
        """A pubsub message, correctly signed by this peer."""
        message = rpc_pb2.Message(
            data=data,
            topicIDs=topics,
            from_id=self.stack.host.get_id().to_bytes(),
            seqno=self._seqno.to_bytes(8, "big"),
        )
        self._seqno += 1
        payload = PUBSUB_SIGNING_PREFIX.encode() + message.SerializeToString()
        message.signature = self.stack.host.get_private_key().sign(payload)
        message.key = self.stack.host.get_public_key().serialize()
        return message

    async def send_rpc(self, rpc: Any, victims: Sequence[PeerInfo] | None = None) -> None:
        """One RPC to each victim."""
        await self.write(encode_varint_prefixed(rpc.SerializeToString()), victims)

    async def write(self, data: bytes, victims: Sequence[PeerInfo] | None = None) -> None:
        """Bytes on the pubsub stream to each victim, at the same time."""
        async with trio.open_nursery() as nursery:
            for victim in self.victims if victims is None else victims:
                nursery.start_soon(self._write_to, victim, data)

    async def _write_to(self, victim: PeerInfo, data: bytes) -> None:
        if not self.connected_to(victim):
            self.counted["refused"] += 1
            self.counted["not connected"] += 1
            return
        with trio.move_on_after(OPEN_S) as patience:
            for _ in range(2):  # the second on a new stream: the victim may have reset the first
                try:
                    stream = self._streams.get(victim.peer_id)
                    if stream is None:
                        stream = self._streams[victim.peer_id] = await self.open(victim, PROTOCOL_ID_V12)
                    patience.deadline = trio.current_time() + WRITE_S
                    await stream.write(data)
                    self.counted["sent"] += 1
                    return
                except Exception as error:  # whatever the library says of a stream or connection that is gone
                    self.counted[type(error).__name__] += 1
                    self._streams.pop(victim.peer_id, None)
        if patience.cancelled_caught:
            self.counted["not taken in time"] += 1
            self._streams.pop(victim.peer_id, None)
        self.counted["refused"] += 1

    async def open(self, victim: PeerInfo, protocol: str) -> Any:
        """A new stream. Raises whatever the library raises."""
        return await self.stack.host.new_stream(victim.peer_id, [protocol])


@asynccontextmanager
async def hostile_peer(
    seed: bytes, topic: str, counted: Counter[str], addresses: Sequence[str], *, listens: bool = True
) -> AsyncIterator[HostilePeer]:
    """A running peer, connected to those of `addresses` that let it in, and subscribed if it `listens`."""
    stack = build(seed, parse_listen(LOOPBACK), None, NetworkLimits(), topic)
    async with stack.running(), trio.open_nursery() as nursery:
        peer = HostilePeer(stack, seed, topic, counted)
        if listens:
            nursery.start_soon(_hear, peer, await stack.pubsub.subscribe(topic))
        await peer.connect(addresses)
        nursery.start_soon(peer.persist)
        yield peer
        nursery.cancel_scope.cancel()


async def _hear(peer: HostilePeer, subscription: Any) -> None:
    while True:
        message = await subscription.get()
        if message.from_id != peer.stack.host.get_id().to_bytes():
            peer.heard.append(bytes(message.data))
