"""One attempt to reach one address: bounded in time, never raising, with a reason from a closed set."""

import enum

import multiaddr
import trio
from libp2p.abc import IHost
from libp2p.exceptions import BaseLibp2pError
from libp2p.peer.id import ID

from swarmd.swarm.addresses import PeerAddress

# Seconds. A mute peer accepts TCP and never speaks: py-libp2p's own dial was seen to hang for 90 s on one.
DIAL_S_MAX = 10.0


class Dialled(enum.Enum):
    """How a dial ended."""

    CONNECTED = "connected"
    REFUSED = "refused"  # nobody listens there, or no route
    TIMEOUT = "timeout"
    NAME_UNKNOWN = "name_unknown"
    WRONG_PEER_ID = "wrong_peer_id"  # a stale list, or an attack
    BANNED = "banned"  # not tried at all
    FAILED = "failed"  # it answered, but not as a peer of ours would


async def dial(host: IHost, target: PeerAddress, *, limit_s: float = DIAL_S_MAX) -> Dialled:
    """Connect to exactly this address, unless the peer is connected already.

    `host.connect` would try only the first address on file for a peer and then block it for 60 s, hence the swarm's own dial.
    """
    network, peer = host.get_network(), ID.from_string(target.peer_id)
    if network.get_connections(peer):
        return Dialled.CONNECTED
    network.unblock_peer(peer)
    with trio.move_on_after(limit_s):
        try:
            await network.dial_addr(multiaddr.Multiaddr(target.text), peer)
        except (BaseLibp2pError, trio.BrokenResourceError, trio.ClosedResourceError, OSError) as error:
            return _reason(error)
        return Dialled.CONNECTED
    return Dialled.TIMEOUT


def _reason(error: BaseException) -> Dialled:
    """The reason that py-libp2p buried in its chain of causes; the text is only read, never shown."""
    link: BaseException | None = error
    while link is not None:
        name, text = type(link).__name__, str(link)
        if name == "PeerIDMismatchesPubkey" or "Peer ID mismatch" in text:
            return Dialled.WRONG_PEER_ID
        if "resolve DNS" in text:
            return Dialled.NAME_UNKNOWN
        if name == "OpenConnectionError":
            return Dialled.REFUSED
        link = link.__cause__ or link.__context__
    return Dialled.FAILED
