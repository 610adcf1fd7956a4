"""T16: PRUNE and GRAFT in stock.

- A pruner notes no back-off for itself, grafts the peer again on its next beat, and is punished for it.
- A refused GRAFT prolongs the back-off. A GRAFT refused for a full mesh sets none. Each is answered, however many come.
- PRUNEs for made-up topics are stored for ever (300,000 of them: 91 MB), with back-offs of up to 2^63 s.
- A node that does no peer exchange dials the addresses in a PRUNE.
"""

import time

from libp2p.peer.id import ID
from libp2p.pubsub.gossipsub import GossipSub
from libp2p.pubsub.pb import rpc_pb2

from swarmd.recent import Recent
from swarmd.swarm.hardening.heartbeat import SteadyHeartbeat

BACK_OFF_S_MAX = 3600
# Both ends count whole seconds; the pruner waits a little longer so that it never comes early.
SLACK_S = 2
EARLY_GRAFT_PENALTY = 0.1
# Peers and topics whose last refusal is remembered.
REFUSED_MAX = 1024


class MutualBackOff(SteadyHeartbeat, GossipSub):  # type: ignore[misc]
    """GossipSub in which a PRUNE holds both ends apart for the same, bounded, time. Obeys peer exchange only with `do_px=True`."""

    def __init__(self, *args: object, **settings: object) -> None:
        # 20 s instead of 60: a small swarm has few other peers to fill its mesh with meanwhile.
        settings.setdefault("prune_back_off", 20)
        super().__init__(*args, **settings)
        self._refused: Recent[tuple[ID, str], float] = Recent(REFUSED_MAX)

    def mesh_heartbeat(self) -> tuple[dict[ID, list[str]], dict[ID, list[str]]]:
        """Expel peers with a negative score, do stock's mesh upkeep, and note a back-off for every pruned peer."""
        expelled = [
            (peer, topic)
            for topic, peers in self.mesh.items()
            for peer in peers
            if self.scorer.score(peer, [topic]) < 0
        ]
        for peer, topic in expelled:
            self.mesh[topic].discard(peer)
            self._add_back_off(
                peer, topic, False
            )  # before stock fills the gap, or it would pick the same peer
        grafts, prunes = super().mesh_heartbeat()
        for peer, topic in expelled:
            prunes[peer].append(topic)
        for peer, topics in prunes.items():
            for topic in topics:
                self._add_back_off(peer, topic, False, self.prune_back_off + SLACK_S)
        return grafts, prunes

    async def handle_graft(self, graft_msg: rpc_pb2.ControlGraft, sender_peer_id: ID) -> None:
        """Let a peer into our mesh, or answer PRUNE; an unknown topic is not worth an answer."""
        topic = graft_msg.topicID
        mesh = self.mesh.get(topic)
        if mesh is None or sender_peer_id in mesh:
            return
        early = self._check_back_off(sender_peer_id, topic)
        if early:
            self.scorer.penalize_behavior(sender_peer_id, EARLY_GRAFT_PENALTY)
        full = len(mesh) >= 2 * self.degree_high  # more than the next beat's pruning should have to mend
        if (
            early
            or full
            or sender_peer_id in self.direct_peers
            or self.scorer.score(sender_peer_id, [topic]) < 0
        ):
            # Once a back-off: a peer that goes on is told nothing new, and an answer costs more than the question.
            if not early:
                self._add_back_off(sender_peer_id, topic, False)
            until_s = self.back_off[topic][sender_peer_id]
            if self._refused.get((sender_peer_id, topic)) != until_s:
                self._refused[sender_peer_id, topic] = until_s
                await self.emit_prune(topic, sender_peer_id, self.do_px, False)
            return
        mesh.add(sender_peer_id)
        self._notify_mesh_peer_added(sender_peer_id, topic)
        self.scorer.on_join_mesh(sender_peer_id, topic)

    async def handle_prune(self, prune_msg: rpc_pb2.ControlPrune, sender_peer_id: ID) -> None:
        """Leave a peer alone in a topic for the time it asks for, at most an hour."""
        topic = prune_msg.topicID
        if topic not in self.mesh:
            return
        wait_s = min(int(prune_msg.backoff) or self.prune_back_off, BACK_OFF_S_MAX)
        self._add_back_off(sender_peer_id, topic, False, wait_s)
        self.mesh[topic].discard(sender_peer_id)
        self.scorer.on_leave_mesh(sender_peer_id, topic)
        if self.do_px and prune_msg.peers and self.scorer.allow_px_from(sender_peer_id, [topic]):
            await self._do_px(list(prune_msg.peers))

    def forget_expired(self) -> None:
        """Stock forgets a back-off only when it is asked about that peer again."""
        super().forget_expired()
        now_s = time.time()
        for topic, until_s in list(self.back_off.items()):
            self.back_off[topic] = {peer: end_s for peer, end_s in until_s.items() if end_s > now_s}
            if not self.back_off[topic]:
                del self.back_off[topic]
