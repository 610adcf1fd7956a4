"""One attempt to reach one address: bounded in time, never raising, with a reason from a closed set.

A knock only finds out whether a peer answers there: TCP, then the Noise handshake that proves who answers, and it is closed
again. It makes no connection between the two nodes, so it also shows something of a peer that is connected already.
"""

import contextlib
import enum
import socket

import multiaddr
import trio
from libp2p.abc import IHost
from libp2p.exceptions import BaseLibp2pError
from libp2p.network.swarm import Swarm
from libp2p.peer.id import ID

from swarmd.swarm.addresses import PeerAddress

# Seconds. A mute peer accepts TCP and never speaks: py-libp2p's own dial was seen to hang for 90 s on one.
DIAL_S_MAX = 10.0
# A router that lets nobody in mostly drops what comes, so the whole time is waited for.
KNOCK_S_MAX = 5.0
_CLOSE_S_MAX = 1.0
# Addresses tried of those that a name has; they share the time.
ADDRESSES_PER_NAME_MAX = 4
_ERRORS = (BaseLibp2pError, trio.BrokenResourceError, trio.ClosedResourceError, OSError)
_FAMILIES = {"dns": socket.AF_UNSPEC, "dns4": socket.AF_INET, "dns6": socket.AF_INET6}
_NO_SUCH_NAME = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))


class Dialled(enum.Enum):
    """How a dial ended."""

    CONNECTED = "connected"
    REFUSED = "refused"  # nobody listens there, or no route
    TIMEOUT = "timeout"
    NAME_UNKNOWN = "name_unknown"  # the resolver says that there is no such name
    NO_RESOLVER = "no_resolver"  # the resolver does not answer, or this machine has none
    WRONG_PEER_ID = "wrong_peer_id"  # a stale list, or an attack
    BANNED = "banned"  # not tried at all
    FAILED = "failed"  # it answered, but not as a peer of ours would


async def dial(host: IHost, target: PeerAddress, *, limit_s: float = DIAL_S_MAX) -> Dialled:
    """Connect to exactly this address, unless the peer is connected already. A name is looked up as this machine does it.

    `host.connect` would try only the first address on file for a peer and then block it for 60 s, hence the swarm's own dial.
    py-libp2p asks name servers by itself: it knows no /etc/hosts, and calls a name that does not exist a refused connection.
    """
    network, peer = host.get_network(), ID.from_string(target.peer_id)
    if network.get_connections(peer):
        return Dialled.CONNECTED
    network.unblock_peer(peer)
    result = Dialled.TIMEOUT
    with trio.move_on_after(limit_s):
        numeric = await numeric_addresses(target)
        if isinstance(numeric, Dialled):
            return numeric
        for address in numeric:
            with trio.move_on_after(limit_s / len(numeric)):
                result = await _dial_one(network, address, peer)
            if result is Dialled.CONNECTED:
                break
    return result


async def numeric_addresses(target: PeerAddress) -> list[PeerAddress] | Dialled:
    """The IP addresses behind an address, itself where it has no name; else why there are none."""
    family = _FAMILIES.get(target.text.split("/")[1])
    if family is None:
        return [target]
    try:
        found = await trio.socket.getaddrinfo(target.host, target.port, family, socket.SOCK_STREAM)
    except socket.gaierror as error:
        return Dialled.NAME_UNKNOWN if error.errno in _NO_SUCH_NAME else Dialled.NO_RESOLVER
    except (OSError, UnicodeError):
        return Dialled.NO_RESOLVER
    hosts = dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found)
    numeric = [address for host in hosts if (address := target.seen_at(host)) is not None]
    return numeric[:ADDRESSES_PER_NAME_MAX] or Dialled.NAME_UNKNOWN


async def _dial_one(network: Swarm, address: PeerAddress, peer: ID) -> Dialled:
    try:
        await network.dial_addr(multiaddr.Multiaddr(address.text), peer)
    except _ERRORS as error:
        return _reason(error)
    return Dialled.CONNECTED


async def knock(host: IHost, target: PeerAddress) -> bool:
    """Whether the named peer, and no other, answers at this IP address."""
    network, address, raw = host.get_network(), multiaddr.Multiaddr(target.text), None
    with trio.move_on_after(KNOCK_S_MAX):
        try:
            raw = await network.transport_manager.transport_for_dialing(address).dial(address)
            await network.upgrader.upgrade_security(raw, True, ID.from_string(target.peer_id))
        except _ERRORS:
            return False
        else:
            return True
        finally:
            if raw is not None:
                with trio.move_on_after(_CLOSE_S_MAX, shield=True), contextlib.suppress(*_ERRORS):
                    await raw.close()
    return False


def _reason(error: BaseException) -> Dialled:
    """The reason that py-libp2p buried in its chain of causes; the text is only read, never shown."""
    link: BaseException | None = error
    while link is not None:
        name, text = type(link).__name__, str(link)
        if name == "PeerIDMismatchesPubkey" or "Peer ID mismatch" in text:
            return Dialled.WRONG_PEER_ID
        if name == "OpenConnectionError":
            return Dialled.REFUSED
        link = link.__cause__ or link.__context__
    return Dialled.FAILED
