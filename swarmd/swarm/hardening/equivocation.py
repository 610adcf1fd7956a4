"""T7: to notice an author who signs two messages with one number, stock keeps up to a thousand whole messages (1 GB at worst)."""

from hashlib import blake2b

from libp2p.peer.id import ID
from libp2p.pubsub.gossipsub import GossipSub
from libp2p.pubsub.pb import rpc_pb2

from swarmd.recent import Recent

PAIRS_MAX = 20_000  # 32 bytes each
PENALTY = 100.0


class EquivocationByDigest(GossipSub):  # type: ignore[misc]
    """GossipSub that keeps two short hashes per message instead of the message."""

    def __init__(self, *args: object, **settings: object) -> None:
        super().__init__(*args, **settings)
        self._content_of: Recent[bytes, bytes] = Recent(PAIRS_MAX)

    def _check_equivocation(self, msg: rpc_pb2.Message) -> bool:
        """False, and a penalty for the author, when this number was used for other content."""
        number = blake2b(msg.from_id + msg.seqno, digest_size=16).digest()
        content = blake2b(msg.data + "\0".join(msg.topicIDs).encode(), digest_size=16).digest()
        if self._content_of.setdefault(number, content) != content:
            self.scorer.penalize_equivocation(ID(msg.from_id), PENALTY)
            return False
        return True
