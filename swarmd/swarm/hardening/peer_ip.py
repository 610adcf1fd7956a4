"""Score term P7 (many peers behind one address) never works in stock: the address is looked up before the peer's stream exists.

In IPv6 a /64 counts as one address. Stock also punishes each peer of an IPv4 /24 for every peer of it beyond 24: in a laboratory, a
cluster or a large provider's network nobody then has a mesh, and 24 silent peers turn honest neighbours out. That is left out. What
one machine or one network may take is bounded where connections are (`inbound_limit`).
"""

from libp2p.peer.id import ID
from libp2p.pubsub.gossipsub import GossipSub

from swarmd.swarm.hardening.counters import contained
from swarmd.swarm.nets import machine_of, plain


class AddressKnown(GossipSub):  # type: ignore[misc]
    """GossipSub that learns a peer's address from the connection, and counts by address alone."""

    def __init__(self, *args: object, **settings: object) -> None:
        super().__init__(*args, **settings)
        self.scorer._get_subnet = _no_subnet

    def _track_peer_ip(self, peer_id: ID) -> None:
        with contained(self.counters, "address_unknown"):
            for connection in self.pubsub.host.get_network().get_connections(peer_id):
                remote = connection.muxed_conn.get_remote_address()
                if remote is not None:
                    self.scorer.add_peer_ip(peer_id, machine_of(plain(remote[0])))
                    return


def _no_subnet(ip: str) -> None:
    """Every address belongs to no network."""
