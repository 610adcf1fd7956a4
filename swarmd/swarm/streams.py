"""Keeps one living pubsub stream to every connected peer; py-libp2p loses it when connections of a peer overlap.

Two ways, both seen when a node restarts faster than its death is noticed. The peer counts as registered, so the stream stays on the
dead connection. Or the stream is opened on the dying one of two connections: that failure is taken for final, and the peer, though
connected, never hears of us again.
"""

import trio
from libp2p.abc import INetConn, INetwork, INetworkService
from libp2p.peer.id import ID

from swarmd.swarm.hardening import HardenedPubsub
from swarmd.swarm.notifee import Notifee

# Looks at all connected peers; a missing stream costs one look-up each.
LOOK_S = 1.0
# A connected peer that refuses pubsub (a tool, another program) is asked again ever more rarely, in looks.
LOOKS_MAX = 60


class StreamKeeper(Notifee):
    """libp2p's INotifee by shape, and a loop. Uses private names of pubsub, like the hardening beside it."""

    def __init__(self, network: INetworkService, pubsub: HardenedPubsub) -> None:
        self._network, self._pubsub = network, pubsub
        self._looks_to_wait: dict[ID, tuple[int, int]] = {}  # peer -> (looks left, looks of the last wait)
        self.num_moved = self.num_retried = 0

    async def run(self) -> None:
        while True:
            await trio.sleep(LOOK_S)
            missing = set(self._network.connections) - set(self._pubsub.peers)
            self._looks_to_wait = {p: wait for p, wait in self._looks_to_wait.items() if p in missing}
            for peer in missing:
                left, last = self._looks_to_wait.get(peer, (1, 1))  # one look of grace for the regular way
                if left > 0:
                    self._looks_to_wait[peer] = (left - 1, last)
                    continue
                self._looks_to_wait[peer] = (min(2 * last, LOOKS_MAX), min(2 * last, LOOKS_MAX))
                self._pubsub._schedule_peer_stream_retry(peer)
                self.num_retried += 1

    async def disconnected(self, network: INetwork, connection: INetConn) -> None:
        """A connection ended; if it carried our stream and the peer has another, the stream moves there."""
        peer = connection.muxed_conn.peer_id
        stream = self._pubsub.peers.get(peer)
        if (
            stream is not None
            and stream.muxed_conn is connection.muxed_conn
            and network.get_connections(peer)
        ):
            self._move(peer)

    def _move(self, peer: ID) -> None:
        self.num_moved += 1
        pubsub = self._pubsub
        # The topics that the peer named over its other connection still hold, and the peer will not name them again.
        topics = [topic for topic, peers in pubsub.peer_topics.items() if peer in peers]
        pubsub._handle_dead_peer(peer)
        for topic in topics:
            pubsub.peer_topics.setdefault(topic, set()).add(peer)
        pubsub._peer_subscription_count[peer] = len(topics)
