"""Every stock RPC carries the sender's signed address record, verified once or twice: most of the signature checks per message.

Here a peer's record is verified when it changes, and ours travels with the hello and announcements only.
"""

from typing import Any

from libp2p.pubsub.pubsub import Pubsub
from libp2p.pubsub.utils import maybe_consume_signed_record


class SenderRecordPubsub(Pubsub):  # type: ignore[misc]
    """Pubsub that remembers the last good record of each connected peer."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._last_record: dict[Any, bytes] = {}

    def consume_record(self, peer: Any, rpc: Any) -> bool:
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

    def _handle_dead_peer(self, peer_id: Any) -> None:
        self._last_record.pop(peer_id, None)
        super()._handle_dead_peer(peer_id)
