"""Every stock RPC carries the sender's signed address record, verified once or twice: most of the signature checks per message.

Here a peer's record is verified when it changes, and ours travels with the hello and announcements only.
"""

from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub
from libp2p.pubsub.utils import maybe_consume_signed_record


class SenderRecordPubsub(Pubsub):  # type: ignore[misc]
    """Pubsub that remembers the last good record of each connected peer."""

    def __init__(self, *args: object, **settings: object) -> None:
        super().__init__(*args, **settings)
        self._last_record: dict[ID, bytes] = {}

    def consume_record(self, peer: ID, rpc: rpc_pb2.RPC) -> bool:
        """Verify and store the record of an RPC unless it is the known one, and take it out of the RPC; false if it is bad."""
        if not rpc.HasField("senderRecord"):
            return True
        record = rpc.senderRecord
        if self._last_record.get(peer) != record:
            if not maybe_consume_signed_record(rpc, self.host, peer):
                return False
            self._last_record[peer] = record
        rpc.ClearField("senderRecord")  # the router would verify it once more
        return True

    def _handle_dead_peer(self, peer_id: ID) -> None:
        self._last_record.pop(peer_id, None)
        super()._handle_dead_peer(peer_id)
