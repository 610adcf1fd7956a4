"""Stock dials what strangers put into the peer store: identify's listen addresses, up to a thousand, and signed peer records.

Stock dials so in three cases: somebody wants a stream to a peer that has just left, an unhealthy connection is replaced, or it
thinks that it has too few connections. Here only `Swarm.dial_addr` connects, to an address that its caller names.
"""

import trio
from libp2p.abc import INetConn
from libp2p.host.basic_host import BasicHost
from libp2p.network.exceptions import SwarmException
from libp2p.peer.id import ID


def dial_named_addresses_only(host: BasicHost) -> None:
    """Replace the three ways in which this host's network dials by itself; `host.connect` is one of them."""
    network = host.get_network()
    network.dial_peer = _not_connected
    network.dial_peer_replacement = _no_replacement
    network.auto_connector.maybe_connect = trio.lowlevel.checkpoint


async def _not_connected(peer_id: ID) -> list[INetConn]:
    await trio.lowlevel.checkpoint()
    raise SwarmException(f"not connected to {peer_id}")


async def _no_replacement(peer_id: ID) -> None:
    await trio.lowlevel.checkpoint()
