"""T10: stock's message cache names messages by author and number even when pubsub was given another id, so gossip never matches;
and it is bounded in beats, not in bytes. This one asks pubsub for the id and holds at most 32 MB.
"""

from collections.abc import Callable

from libp2p.pubsub.gossipsub import GossipSub
from libp2p.pubsub.mcache import CacheEntry, MessageCache
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub

CACHE_BYTES_MAX = 32 * 2**20


class BoundedMessageCache(MessageCache):  # type: ignore[misc]
    """The last messages, by pubsub's own id, oldest out first."""

    history: list[list[CacheEntry]]
    msgs: dict[bytes, rpc_pb2.Message]

    def __init__(
        self,
        window_size: int,
        history_size: int,
        message_id: Callable[[rpc_pb2.Message], bytes],
        bytes_max: int,
    ) -> None:
        super().__init__(window_size, history_size)
        self._message_id, self._bytes_max, self.size_bytes = message_id, bytes_max, 0

    def put(self, msg: rpc_pb2.Message) -> None:
        message_id = self._message_id(msg)
        if message_id in self.msgs:
            return
        self.msgs[message_id] = msg
        self.size_bytes += len(msg.data)
        self.history[0].append(CacheEntry(message_id, msg.topicIDs))
        while self.size_bytes > self._bytes_max:
            self._drop(next(iter(self.msgs)))

    def shift(self) -> None:
        """One beat has passed: forget the oldest beat's messages."""
        for entry in self.history[-1]:
            self._drop(entry.mid)
        self.history = [[], *self.history[:-1]]

    def window(self, topic: str) -> list[bytes]:
        """Ids of the messages of the last beats in a topic that are still here."""
        return [message_id for message_id in super().window(topic) if message_id in self.msgs]

    def _drop(self, message_id: bytes) -> None:
        message = self.msgs.pop(message_id, None)
        if message is not None:
            self.size_bytes -= len(message.data)


class BoundedHistory(GossipSub):  # type: ignore[misc]
    """GossipSub with the cache above."""

    mcache: BoundedMessageCache

    def attach(self, pubsub: Pubsub) -> None:
        """Called by pubsub's constructor."""
        super().attach(pubsub)
        window, history = self.mcache.window_size, self.mcache.history_size
        self.mcache = BoundedMessageCache(window, history, pubsub.get_message_id, CACHE_BYTES_MAX)
