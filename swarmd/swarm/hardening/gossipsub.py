"""The hardened GossipSub: the fixes of the files beside this one in one class."""

from libp2p.peer.id import ID

from swarmd.swarm.hardening.absent_peers import AbsentForgotten
from swarmd.swarm.hardening.back_off import MutualBackOff
from swarmd.swarm.hardening.control_leak import OwnControlMessages
from swarmd.swarm.hardening.counters import Counters, contained
from swarmd.swarm.hardening.equivocation import EquivocationByDigest
from swarmd.swarm.hardening.forwarding import LeanForwarding
from swarmd.swarm.hardening.mesh_degree import SteadyDegree
from swarmd.swarm.hardening.message_cache import BoundedHistory
from swarmd.swarm.hardening.message_ids import ForeignIds
from swarmd.swarm.hardening.peer_ip import AddressKnown

ROUTER_COUNTERS = (
    "heartbeat_error",
    "graft_error",
    "offer_error",
    "queue_full",
    "equivocation_late",
    "address_unknown",
)


class HardenedGossipSub(
    AbsentForgotten,
    SteadyDegree,
    MutualBackOff,
    ForeignIds,
    OwnControlMessages,
    LeanForwarding,
    EquivocationByDigest,
    BoundedHistory,
    AddressKnown,
):
    """GossipSub for a public network; takes the arguments of py-libp2p's `GossipSub`, with safe defaults. Needs `HardenedPubsub`.

    Offer `/meshsub/1.2.0` and `1.1.0` only: the higher ids exist in py-libp2p alone.
    """

    def __init__(self, *args: object, **settings: object) -> None:
        self.counters = Counters(ROUTER_COUNTERS)
        super().__init__(*args, **settings)

    async def on_peer_subscribed(self, peer_id: ID, topic: str) -> None:
        """Runs as a task of pubsub, where an error would end it."""
        with contained(self.counters, "graft_error"):
            await super().on_peer_subscribed(peer_id, topic)

    async def flush_pending_messages(self, peer_id: ID) -> None:
        """Likewise."""
        with contained(self.counters, "offer_error"):
            await super().flush_pending_messages(peer_id)
