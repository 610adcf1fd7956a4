"""Forwarding a judged message: stock sends an IDONTWANT to the whole mesh for each message, own and tiny messages included. That
is half of all CPU for small messages and fills the queues (T13). It also attaches its address record to each message, and stores
it for absent peers (T18).

Stock sends own messages to the mesh alone. Twenty identities that subscribe are most of a mesh, and then nobody hears the node.
GossipSub 1.1 has publishers send to every subscriber ("flood publishing"). This module does so within bounds.
"""

import random
import time

from libp2p.peer.id import ID
from libp2p.pubsub.gossipsub import PROTOCOL_ID_V12, PROTOCOL_ID_V13, GossipSub
from libp2p.pubsub.pb import rpc_pb2

# Below this the note costs more than the copy it might save (go-libp2p: 1 KiB; an RPC costs us more CPU than it costs Go).
IDONTWANT_BYTES_MIN = 4096

# Bytes of copies of one own message beside the mesh: 21 subscribers at 12 KB, or 2 Mbit/s of a home uplink at a message a second.
BESIDE_MESH_BYTES_MAX = 256 * 1024


class LeanForwarding(GossipSub):  # type: ignore[misc]
    """GossipSub that sends a message to the peers that want it, and nothing beside it."""

    def __init__(self, *args: object, **settings: object) -> None:
        settings.setdefault("max_idontwant_messages", 1000)  # stock's 10 a beat are used up in a moment
        super().__init__(*args, **settings)

    async def publish(self, msg_forwarder: ID, pubsub_msg: rpc_pb2.Message) -> None:
        """Send an accepted message on: to the mesh, or to the fanout of a topic we are not in."""
        if not self._check_equivocation(pubsub_msg):
            self.counters.count("equivocation_late")
            return
        self.mcache.put(pubsub_msg)
        message_id, origin = self.pubsub.get_message_id(pubsub_msg), ID(pubsub_msg.from_id)
        topics = list(pubsub_msg.topicIDs)
        if msg_forwarder != self.pubsub.my_id and len(pubsub_msg.data) >= IDONTWANT_BYTES_MIN:
            await self._say_we_have_it(message_id, topics, {msg_forwarder, origin})
        rpc = rpc_pb2.RPC(publish=[pubsub_msg])
        peers = set(self._get_peers_to_send(topics, msg_forwarder, origin, message_id))
        if msg_forwarder == self.pubsub.my_id:
            peers |= self._beside_mesh(topics, peers, len(pubsub_msg.data))
        for peer in peers:
            if peer in self.pubsub.peers and self.scorer.allow_publish(peer, topics):
                self.send_rpc(peer, rpc)
        for topic in topics:
            self.time_since_last_publish[topic] = int(time.time())

    def _beside_mesh(self, topics: list[str], mesh: set[ID], size_bytes: int) -> set[ID]:
        """Subscribers outside the mesh that get an own message as well: all, or as many as the bound allows, drawn anew."""
        others = {peer for topic in topics for peer in self.pubsub.peer_topics.get(topic, ())} - mesh
        num = min(len(others), BESIDE_MESH_BYTES_MAX // max(1, size_bytes))
        return set(random.sample(list(others), num))

    async def _say_we_have_it(self, message_id: bytes, topics: list[str], known: set[ID]) -> None:
        note = rpc_pb2.ControlMessage(idontwant=[rpc_pb2.ControlIDontWant(messageIDs=[message_id])])
        for peer in {peer for topic in topics for peer in self.mesh.get(topic, ())} - known:
            if self.peer_protocol.get(peer) in (PROTOCOL_ID_V12, PROTOCOL_ID_V13):
                await self.emit_control_message(note, peer)
