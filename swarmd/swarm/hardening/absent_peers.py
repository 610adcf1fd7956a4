"""Peers that have left: stock forgets only peers to which it has a stream. A peer that grafts itself and refuses our stream stays
in the mesh for good when it leaves. After 32 such visits nobody else gets in. Scores and lists of ids stay as well.

The last words of a peer may be read after it left. Each beat therefore compares the tables with the connections.
"""

from collections.abc import Iterable

from libp2p.peer.id import ID
from libp2p.pubsub.gossipsub import GossipSub

from swarmd.swarm.hardening.heartbeat import SteadyHeartbeat


class AbsentForgotten(SteadyHeartbeat, GossipSub):  # type: ignore[misc]
    """GossipSub that knows nothing, one beat later, of peers that are not connected."""

    def forget_expired(self) -> None:
        super().forget_expired()
        connected = self.pubsub.host.get_network().connections
        for peer in {peer for table in self._tables() for peer in table if not connected.get(peer)}:
            self.pubsub._handle_dead_peer(peer)
            self.remove_peer(peer)

    def _tables(self) -> list[Iterable[ID]]:
        """All tables by peer id. Scores also hold authors whom this node never met."""
        scorer, pubsub = self.scorer, self.pubsub
        return [
            *self.mesh.values(),
            *self.fanout.values(),
            *pubsub.peer_topics.values(),
            pubsub._peer_subscription_count,
            pubsub._last_record,
            self.peer_protocol,
            self.dont_send_message_ids,
            scorer.time_in_mesh,
            scorer.first_message_deliveries,
            scorer.mesh_message_deliveries,
            scorer.invalid_messages,
            scorer.behavior_penalty,
            scorer.equivocation_penalties,
            scorer.ip_by_peer,
        ]
