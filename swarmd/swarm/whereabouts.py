"""Where connected peers can be dialled, and what of that is passed on to whom. Pure: the caller knocks and passes the time in.

An address is passed on when it is known to work: we dialled it, or we knocked there (`dial.knock`). Of peers in our own network,
where no router stands between, their word suffices. Two peers that come from one outside address stand behind one router, and
nobody but them can use what they are called in there: each is told the other's local addresses.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from swarmd.recent import Recent
from swarmd.swarm import hearsay
from swarmd.swarm.addresses import PeerAddress
from swarmd.swarm.nets import machine_of, net_of

# What was found at a knock holds so long: somebody who just opened a port wants to see it, and a router forgets.
KNOCK_HOLDS_S = 240.0
# Vain knocks at one machine, which may be a provider's router for thousands of homes, within the window.
VAIN_PER_MACHINE_MAX, VAIN_WINDOW_S = 8, 3600.0
_MACHINES_MAX = 1024


@dataclass
class _Peer:
    """What is known of one connected peer."""

    seen_host: str = ""
    dialled: PeerAddress | None = None
    claimed: PeerAddress | None = None
    reached: bool | None = None
    knocked_at: float = -math.inf
    at_home: list[PeerAddress] = field(default_factory=list)


class Whereabouts:
    """See the module.

    Args:
        is_near: whether we have an address in the network of this host.
    """

    def __init__(self, is_near: Callable[[str], bool]) -> None:
        self._is_near = is_near
        self._peers: dict[str, _Peer] = {}
        self._vain: Recent[str, list[float]] = Recent(_MACHINES_MAX)

    def forget(self, peer_id: str) -> None:
        """The peer is no longer connected."""
        self._peers.pop(peer_id, None)

    def dialled(self, address: PeerAddress) -> None:
        """A dial of this address just succeeded."""
        self._of(address.peer_id).dialled = address

    def claims(self, peer_id: str, claims: list[PeerAddress], seen_host: str) -> None:
        """Note where a connected peer believes that it listens; `seen_host` is the far end of its connection."""
        peer = self._of(peer_id)
        peer.seen_host = seen_host
        peer.at_home = hearsay.at_home(claims, peer_id)
        claimed = hearsay.believable(claims, peer_id, seen_host)
        if claimed != peer.claimed:
            peer.claimed, peer.reached, peer.knocked_at = claimed, None, -math.inf

    def to_knock(self, peer_id: str, now: float) -> PeerAddress | None:
        """Where to knock to find out whether this peer can be reached; None when that is known or may not be tried."""
        peer = self._peers.get(peer_id)
        if peer is None or peer.claimed is None or self._is_near(peer.claimed.host):
            return None
        if peer.dialled == peer.claimed or now - peer.knocked_at < KNOCK_HOLDS_S:
            return None
        num_vain = len(self._recent_vain(peer.claimed.host, now))
        return peer.claimed if num_vain < VAIN_PER_MACHINE_MAX else None

    def knocking(self, address: PeerAddress, now: float) -> None:
        """The knock that `to_knock` named begins; `knocked` takes how it ended."""
        self._of(address.peer_id).knocked_at = now

    def knocked(self, address: PeerAddress, now: float, *, reached: bool) -> None:
        """How a knock ended."""
        if not reached:
            self._vain[machine_of(address.host)] = [*self._recent_vain(address.host, now), now]
        peer = self._peers.get(address.peer_id)
        if peer is not None and peer.claimed == address:
            peer.reached = reached

    def reached(self, peer_id: str) -> bool | None:
        """Whether the peer answered where it says that it listens; None when nobody dialled or knocked there."""
        peer = self._peers.get(peer_id)
        if peer is None:
            return None
        return True if peer.dialled is not None and peer.dialled == peer.claimed else peer.reached

    def told_to(self, asker_host: str, others: Iterable[str]) -> list[str]:
        """Addresses of the other connected peers, as far as the asker may take them from us.

        First those in the asker's own home, which only we may know of; then what we dialled ourselves; then what they claim.
        """
        peers = [peer for peer_id in others if (peer := self._peers.get(peer_id)) is not None]
        home = [
            address.text
            for peer in peers
            if self._same_home(peer.seen_host, asker_host)
            for address in [*peer.at_home, *([peer.claimed] if peer.claimed else [])]
        ]
        proven = [peer.dialled for peer in peers if peer.dialled is not None]
        claimed = [
            peer.claimed
            for peer in peers
            if peer.dialled is None
            and peer.claimed is not None
            and (peer.reached or self._is_near(peer.claimed.host))
        ]
        far = [
            address.text
            for address in [*proven, *claimed]
            if hearsay.acceptable(address, asker_host, is_near=self._is_near, own_is_public=False)
        ]
        return list(dict.fromkeys([*home, *far]))

    def _same_home(self, one: str, other: str) -> bool:
        net = net_of(one)
        return net is not None and net.is_public and machine_of(one) == machine_of(other)

    def _of(self, peer_id: str) -> _Peer:
        return self._peers.setdefault(peer_id, _Peer())

    def _recent_vain(self, host: str, now: float) -> list[float]:
        return [at for at in self._vain.get(machine_of(host), []) if at > now - VAIN_WINDOW_S]
