"""T12: stock gives a subscriber a channel of 32 messages and drops what does not fit; a pause of a second loses messages."""

import functools

import trio
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub
from libp2p.pubsub.subscription import TrioSubscriptionAPI

# Messages: 60 MB of the largest at worst, and a pause of seconds in a swarm of hundreds.
CHANNEL_MESSAGES = 1024


class SubscriptionPubsub(Pubsub):  # type: ignore[misc]
    """Pubsub whose subscribers may fall behind by a thousand messages; counts `subscriber_lagged` beyond."""

    async def subscribe(self, topic_id: str) -> TrioSubscriptionAPI:
        """Join a topic; the subscription of an earlier call, if there is one."""
        if topic_id in self.topic_ids:
            return self.subscribed_topics_receive[topic_id]
        sender, receiver = trio.open_memory_channel[rpc_pb2.Message](CHANNEL_MESSAGES)
        subscription = TrioSubscriptionAPI(
            receiver, unsubscribe_fn=functools.partial(self.unsubscribe, topic_id)
        )
        self.subscribed_topics_send[topic_id] = sender
        self.subscribed_topics_receive[topic_id] = subscription
        packet, announcement = self._build_announce_rpc(topic_id, subscribe=True)
        await self.message_all_peers(packet.SerializeToString(), announce=announcement)
        await self.router.join(topic_id)
        return subscription

    def notify_subscriptions(self, publish_message: rpc_pb2.Message) -> None:
        """Hand a message to the subscribers of its topics; drops it, and counts, for one that lags."""
        for topic in publish_message.topicIDs:
            sender = self.subscribed_topics_send.get(topic)
            if sender is None:
                continue
            try:
                sender.send_nowait(publish_message)
            except trio.WouldBlock:
                self.counters.count("subscriber_lagged")
