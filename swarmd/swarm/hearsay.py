"""Which addresses of others' naming a node believes, and which it passes on. Pure.

The operator's own addresses are dialled as they are. All others come from strangers: the answers of the peer exchange, and the
peer book, which holds what such answers led to.
"""

from collections.abc import Callable

from swarmd.swarm.addresses import PeerAddress
from swarmd.swarm.nets import net_of

# Below are the services of a machine that only its administrator starts, and which answer to whoever knocks.
PORT_MIN = 1024


def believable(claims: list[PeerAddress], peer_id: str, seen_host: str) -> PeerAddress | None:
    """The one address of a peer that we may pass on: its own id, at the host we see it come from.

    So nobody can make the swarm dial a third party. `seen_host` is the far end of the peer's connection.
    """
    for claim in claims:
        if claim.peer_id != peer_id:
            continue
        # Who listens on every interface cannot name its own address.
        address = claim.seen_at(seen_host) if claim.host in ("0.0.0.0", "::") else claim
        if address and address.host == seen_host and address.port >= PORT_MIN and net_of(seen_host):
            return address
    return None


def acceptable(
    hint: PeerAddress, teller_host: str, *, is_near: Callable[[str], bool], own_is_public: bool
) -> bool:
    """Whether a stranger's word suffices to dial this.

    A public IP address may come from anybody. One of a local network counts only if its teller and we are in the same network: a
    stranger from the internet must not have us knock at 127.0.0.1 or at our router. A node that announces a public address
    takes no local one at all: strangers may reach it through a proxy, and then look like neighbours. Names are never taken: a
    look-up is itself a request to somebody else, and its answer may change. Nor is what embeds an IPv4 address in IPv6.

    Args:
        teller_host: the far end of the teller's connection.
        is_near: whether we have an address in the network of this host.
    """
    net = net_of(hint.host)
    if net is None or hint.port < PORT_MIN:
        return False
    if net.is_public:
        return True
    return not own_is_public and net_of(teller_host) == net and is_near(hint.host)


def voice(teller_host: str, peer_id: str) -> str:
    """Who speaks: all peers of one public net count as one teller, since names cost nothing."""
    net = net_of(teller_host)
    return net.prefix if net is not None and net.is_public else peer_id
