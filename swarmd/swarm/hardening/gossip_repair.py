"""T9: stock offers recent message ids (IHAVE) only to peers that are not in PRUNE back-off, so a peer just pruned misses a minute
of messages: the worst cause of loss in young swarms. It also answers IHAVE and IWANT of any length.
"""

from collections import Counter, defaultdict

import trio
from libp2p.peer.id import ID
from libp2p.pubsub.gossipsub import GossipSub
from libp2p.pubsub.pb import rpc_pb2

from swarmd.swarm.hardening.heartbeat import SteadyHeartbeat
from swarmd.swarm.hardening.rpc_bounds import IDS_MAX

# Dlazy and the gossip factor of the gossipsub specification.
LAZY_DEGREE = 6
GOSSIP_FACTOR = 0.25
# Messages asked of one peer in one beat: more than a swarm of hundreds makes in a second.
IWANT_PER_BEAT_MAX = 64
# Times that one message is served to one peer (go-libp2p's GossipRetransmission). More would make the node an amplifier.
SERVINGS_MAX = 3
# Seconds that a peer has to answer before another peer is asked for the same message.
PROMISE_S = 3.0


class GossipRepair(SteadyHeartbeat, GossipSub):  # type: ignore[misc]
    """GossipSub that gossips to every subscriber outside the mesh, asks once, and answers within limits."""

    def __init__(self, *args: object, **settings: object) -> None:
        super().__init__(*args, **settings)
        self._num_asked: Counter[ID] = Counter()  # by peer, this beat
        self._num_offered: Counter[ID] = Counter()  # ids that a peer offered in this beat, and were looked at
        self._asked_until_s: dict[bytes, float] = {}
        self._num_served: Counter[tuple[ID, bytes]] = Counter()

    def gossip_heartbeat(self) -> dict[ID, dict[str, list[bytes]]]:
        """Which peer is offered which ids in this beat."""
        offers: dict[ID, dict[str, list[bytes]]] = defaultdict(dict)
        for topic in {*self.mesh, *self.fanout}:
            ids = self.mcache.window(topic)
            if not ids:
                continue
            fed = self.mesh.get(topic) or self.fanout.get(topic) or set()
            outside = [
                peer
                for peer in self.pubsub.peer_topics.get(topic, ())
                if peer not in fed
                and self._is_gossipsub_peer(peer)
                and self.scorer.allow_gossip(peer, [topic])
            ]
            num = max(LAZY_DEGREE, int(GOSSIP_FACTOR * len(outside)))
            for peer in self.select_from_minus(num, outside, ()):
                offers[peer][topic] = ids
        return offers

    async def handle_ihave(self, ihave_msg: rpc_pb2.ControlIHave, sender_peer_id: ID) -> None:
        """Ask for what we have not seen, are not judging, and have not just asked another peer for."""
        if ihave_msg.topicID not in self.mesh or self.scorer.is_graylisted(
            sender_peer_id, [ihave_msg.topicID]
        ):
            return
        now_s = trio.current_time()
        wanted: list[bytes] = []
        left = IDS_MAX - self._num_offered[sender_peer_id]
        self._num_offered[sender_peer_id] += len(ihave_msg.messageIDs)
        for message_id in ihave_msg.messageIDs[: max(0, left)]:
            if self._num_asked[sender_peer_id] >= IWANT_PER_BEAT_MAX:
                break
            if self._is_wanted(message_id, now_s):
                wanted.append(message_id)
                self._num_asked[sender_peer_id] += 1
                self._asked_until_s[message_id] = now_s + PROMISE_S
        if wanted:
            await self.emit_iwant(wanted, sender_peer_id)

    def _is_wanted(self, message_id: bytes, now_s: float) -> bool:
        return not (
            self._asked_until_s.get(message_id, 0.0) > now_s
            or message_id in self.pubsub.in_flight
            or self.pubsub.seen_messages.has(message_id)
        )

    async def handle_iwant(self, iwant_msg: rpc_pb2.ControlIWant, sender_peer_id: ID) -> None:
        """Send what is asked for and still cached, each message in an RPC of its own."""
        if self.scorer.is_graylisted(sender_peer_id, list(self.mesh)):
            return
        for message_id in iwant_msg.messageIDs[:IWANT_PER_BEAT_MAX]:
            message = self.mcache.get(message_id)
            if message is None:
                continue
            self._num_served[sender_peer_id, message_id] += 1
            if self._num_served[sender_peer_id, message_id] > SERVINGS_MAX:
                self.scorer.penalize_behavior(sender_peer_id, 0.1)
                continue
            self.send_rpc(sender_peer_id, rpc_pb2.RPC(publish=[message]))

    def forget_expired(self) -> None:
        """A new beat: new allowances; broken promises and messages gone from the cache are forgotten."""
        super().forget_expired()
        now_s = trio.current_time()
        self._num_asked.clear()
        self._num_offered.clear()
        self._asked_until_s = {
            message_id: until_s for message_id, until_s in self._asked_until_s.items() if until_s > now_s
        }
        for peer, message_id in [key for key in self._num_served if key[1] not in self.mcache.msgs]:
            del self._num_served[peer, message_id]
