"""T5, T6: stock's defaults. "Adaptive gossip" makes a heartbeat of 1 s one of 30 to 60 s as soon as a mesh is small. "Spam
protection" drops more than ten messages a second of one forwarder without a word. One exception ends the router.
"""

import trio
from libp2p.peer.id import ID
from libp2p.pubsub.gossipsub import GossipSub

from swarmd.swarm.hardening.counters import Counters, contained


class SteadyHeartbeat(GossipSub):  # type: ignore[misc]
    """GossipSub that beats at the interval it was given, whatever a beat meets.

    Peer replacement (`_maintain_mesh_quality`) is left out: it swaps a mesh peer on every beat for one that scores 0.1 more.
    """

    counters: Counters

    def __init__(self, *args: object, **settings: object) -> None:
        for name in ("adaptive_gossip_enabled", "spam_protection_enabled", "eclipse_protection_enabled"):
            settings.setdefault(name, False)
        super().__init__(*args, **settings)
        self.heartbeat_lag_s = 0.0  # how late the last beat came: the event loop's health

    async def heartbeat(self) -> None:
        await trio.sleep(self.heartbeat_initial_delay)
        due_s = trio.current_time()
        while True:
            self.heartbeat_lag_s = trio.current_time() - due_s
            await self.beat()
            due_s = max(due_s + self.heartbeat_interval, trio.current_time())
            await trio.sleep_until(due_s)

    async def beat(self) -> None:
        """One beat; a step that fails is counted (`heartbeat_error`) and does not keep the others from running."""
        grafts: dict[ID, list[str]] = {}
        prunes: dict[ID, list[str]] = {}
        gossip: dict[ID, dict[str, list[bytes]]] = {}
        with contained(self.counters, "heartbeat_error"):
            grafts, prunes = self.mesh_heartbeat()
        with contained(self.counters, "heartbeat_error"):
            self.fanout_heartbeat()
        with contained(self.counters, "heartbeat_error"):
            gossip = self.gossip_heartbeat()
        with contained(self.counters, "heartbeat_error"):
            await self._emit_control_msgs(grafts, prunes, gossip)
        with contained(self.counters, "heartbeat_error"):
            self.mcache.shift()
            self.scorer.on_heartbeat()
            self._prune_idontwant_entries()
            self.forget_expired()

    def forget_expired(self) -> None:
        """Drop per-peer notes whose time is over; the parts of a hardened router add theirs."""
