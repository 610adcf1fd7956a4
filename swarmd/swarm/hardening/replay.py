"""T17, T18: stock sends every new subscriber the whole cache as full messages, from each of its neighbours, and keeps a hundred
messages for every connected peer that is not in the topic. Here a newcomer is told the ids (IHAVE) and asks for what it lacks.
"""

from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2

from swarmd.swarm.hardening.gossip_repair import GossipRepair

OFFER_IDS_MAX = 200
WAITING_PEERS_MAX = 64


class OfferInsteadOfReplay(GossipRepair):
    """GossipSub that offers its recent messages to a newcomer once."""

    def __init__(self, *args: object, **settings: object) -> None:
        super().__init__(*args, **settings)
        self._offers_waiting: dict[ID, rpc_pb2.ControlIHave] = {}

    async def send_recent_messages(self, peer_id: ID, topic: str) -> None:
        """Offer the ids of the recent messages of a topic to a peer that just subscribed."""
        ids = self.mcache.window(topic)
        if ids:
            await self.emit_ihave(topic, ids[-OFFER_IDS_MAX:], peer_id)

    async def handle_ihave(self, ihave_msg: rpc_pb2.ControlIHave, sender_peer_id: ID) -> None:
        """An offer can arrive before our own stream to the peer stands: then the question waits for the stream."""
        if sender_peer_id in self.pubsub.peer_queues:
            await super().handle_ihave(ihave_msg, sender_peer_id)
        elif len(self._offers_waiting) < WAITING_PEERS_MAX and ihave_msg.topicID in self.mesh:
            del ihave_msg.messageIDs[OFFER_IDS_MAX:]
            self._offers_waiting[sender_peer_id] = ihave_msg

    async def flush_pending_messages(self, peer_id: ID) -> None:
        """Pubsub calls this when our stream to a peer stands (stock would send stored messages here)."""
        offer = self._offers_waiting.pop(peer_id, None)
        if offer is not None and peer_id in self.pubsub.peer_queues:
            await super().handle_ihave(offer, peer_id)

    def forget_expired(self) -> None:
        """An offer not taken up within a beat is repeated by gossip anyway."""
        super().forget_expired()
        self._offers_waiting.clear()
