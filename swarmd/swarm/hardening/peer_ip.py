"""Score term P7 (many peers behind one address) never works in stock: the address is looked up before the peer's stream exists.

In IPv6 a /64 counts as one address.
"""

from libp2p.peer.id import ID
from libp2p.pubsub.gossipsub import GossipSub

from swarmd.swarm.hardening.counters import contained
from swarmd.swarm.nets import machine_of, plain


class AddressKnown(GossipSub):  # type: ignore[misc]
    """GossipSub that learns a peer's address from the connection."""

    def _track_peer_ip(self, peer_id: ID) -> None:
        with contained(self.counters, "address_unknown"):
            for connection in self.pubsub.host.get_network().get_connections(peer_id):
                remote = connection.muxed_conn.get_remote_address()
                if remote is not None:
                    self.scorer.add_peer_ip(peer_id, machine_of(plain(remote[0])))
                    return
