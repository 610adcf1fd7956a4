"""Which addresses of others' naming a node believes, and which it passes on. Pure.

The operator's own addresses are dialled as they are. All others come from strangers: the answers of the peer exchange, and the
peer book, which holds what such answers led to.
"""

from collections.abc import Callable

from swarmd.swarm.addresses import PeerAddress
from swarmd.swarm.nets import machine_of, net_of

# Below are the services of a machine that only its administrator starts, and which answer to whoever knocks.
PORT_MIN = 1024
# The teller of what was heard in the local network: all of it is one voice (`hints`).
NEARBY = "nearby"
# Local addresses kept of one peer: cable, wireless, an overlay.
AT_HOME_MAX = 4


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


def at_home(claims: list[PeerAddress], peer_id: str) -> list[PeerAddress]:
    """A peer's own addresses in its local network. Of use only to peers behind the same router, and told to nobody else."""
    return [
        claim
        for claim in claims
        if claim.peer_id == peer_id and claim.port >= PORT_MIN and _is_at_home(claim.host)
    ][:AT_HOME_MAX]


def _is_at_home(host: str) -> bool:
    net = net_of(host)
    return net is not None and not net.is_public and machine_of(host) != "loopback"


def acceptable(
    hint: PeerAddress,
    teller_host: str,
    *,
    is_near: Callable[[str], bool],
    own_is_public: bool,
    teller_dialled: bool = False,
) -> bool:
    """Whether a stranger's word suffices to dial this.

    A public IP address may come from anybody. One of a local network counts only if we have an address there ourselves, and if its
    teller is in it too or is a peer that we dialled: a stranger who came to us must not have us knock at our router, and nobody
    at 127.0.0.1 from elsewhere. A node that announces a public address takes no local one at all: strangers may reach it through
    a proxy, and then look like neighbours. Names are never taken: a look-up is itself a request to somebody else, and its answer
    may change. Nor is what embeds an IPv4 address in IPv6.

    Args:
        teller_host: the far end of the teller's connection.
        is_near: whether we have an address in the network of this host.
        teller_dialled: we dialled the teller. Such peers know who else comes from our outside address (`whereabouts`).
    """
    net = net_of(hint.host)
    if net is None or hint.port < PORT_MIN:
        return False
    if net.is_public:
        return True
    if own_is_public or not is_near(hint.host):
        return False
    return net_of(teller_host) == net or (teller_dialled and _is_at_home(hint.host))


def voice(teller_host: str, peer_id: str) -> str:
    """Who speaks: all peers of one public net count as one teller, since names cost nothing."""
    net = net_of(teller_host)
    return net.prefix if net is not None and net.is_public else peer_id
