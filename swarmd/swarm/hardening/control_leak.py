"""T15: stock builds the control message of each peer on top of the previous one's, so with several topics a peer is grafted into
meshes of topics it never subscribed to. Also: one signed address record less on every control RPC, and one copy less per send.
"""

from libp2p.peer.id import ID
from libp2p.pubsub.gossipsub import GossipSub
from libp2p.pubsub.pb import rpc_pb2

from swarmd.swarm.hardening.rpc_bounds import IDS_MAX


class OwnControlMessages(GossipSub):  # type: ignore[misc]
    """GossipSub that sends every peer exactly its own GRAFT, PRUNE and IHAVE."""

    async def _emit_control_msgs(
        self,
        peers_to_graft: dict[ID, list[str]],
        peers_to_prune: dict[ID, list[str]],
        peers_to_gossip: dict[ID, dict[str, list[bytes]]],
    ) -> None:
        for peer in {*peers_to_graft, *peers_to_prune, *peers_to_gossip}:
            control = rpc_pb2.ControlMessage()
            for topic in peers_to_graft.get(peer, ()):
                control.graft.add(topicID=topic)
            for topic in peers_to_prune.get(peer, ()):
                control.prune.add(
                    topicID=topic, backoff=self.prune_back_off
                )  # stock forgets the back-off here
            for topic, ids in peers_to_gossip.get(peer, {}).items():
                control.ihave.add(topicID=topic, messageIDs=ids[-IDS_MAX:])
            await self.emit_control_message(control, peer)

    async def emit_control_message(self, control_msg: rpc_pb2.ControlMessage, to_peer: ID) -> None:
        """Queue a control message, ahead of data, without the address record stock adds and every receiver verifies."""
        rpc = rpc_pb2.RPC()
        rpc.control.CopyFrom(control_msg)
        self.send_rpc(to_peer, rpc, priority=True)

    def send_rpc(self, peer_id: ID, rpc: rpc_pb2.RPC, priority: bool = False) -> None:
        """Queue an RPC; counts `queue_full` for a peer too slow to take it. Splitting and retrying is stock's."""
        queue = self.pubsub.peer_queues.get(peer_id)
        if queue is None:
            return
        if peer_id in self._pending_control or rpc.ByteSize() > queue.max_message_size:
            super().send_rpc(peer_id, rpc, priority)
        elif not queue.push(rpc, priority=priority):
            self._handle_dropped_rpc(peer_id, rpc, "queue_full")

    def _handle_dropped_rpc(self, peer_id: ID, rpc: rpc_pb2.RPC, reason: str) -> None:
        self.counters.count("queue_full")
        super()._handle_dropped_rpc(peer_id, rpc, reason)
