"""The dialler: keeps this node connected to its bootstraps, to peers that worked before, and to enough of those that peers named.

Promises: no dial delays another or the start; a bootstrap is never given up; a stranger's word makes it dial only what `hearsay`
and `hints` allow. Stock py-libp2p blocks the start on a mute bootstrap, forgets a bootstrap after three failures, and blocks a
failed peer for a minute.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import trio
from libp2p.abc import IHost
from libp2p.network.swarm import Swarm
from libp2p.peer.id import ID
from libp2p.rcmgr import Direction

from swarmd.swarm.addresses import PeerAddress
from swarmd.swarm.dial import Dialled, dial
from swarmd.swarm.hearsay import acceptable
from swarmd.swarm.hints import Hints
from swarmd.swarm.host import host_of_connection
from swarmd.swarm.nets import net_of, plain, source_towards

BACK_OFF_S_MIN, BACK_OFF_S_MAX = 1.0, 60.0
# Seconds that a connection has to last to count as a success. Otherwise an address would be dialled again every second, and 200
# such addresses keep a core busy.
LIFE_S_GOOD = 10.0
# An address that once worked is dropped after this many failures in a row, about six minutes.
FAILURES_MAX = 10
# Addresses kept beside the operator's, as many as the book has, so that peers that come and go do not pile up.
KEPT_MAX = 200
# Dials at a time. Each costs a socket and, when it succeeds, 50 ms of CPU.
DIALS_MAX = 16
# Peers dialled in one public net, the operator's aside. Whoever wants to hold all twelve places needs six nets.
DIALLED_PER_NET_MAX = 2

Report = Callable[[str, Dialled], None]


@dataclass
class _Known:
    """An address of the operator, or one that worked before."""

    address: PeerAddress
    is_operators: bool
    num_failures: int = 0
    due_at: float = 0.0
    dialled_at: float = -math.inf
    last: Dialled | None = None


class Dialler:
    """The dial loop of one host.

    Args:
        bootstrap: the operator's addresses.
        remembered: addresses that worked before, asked for again when the node is cut off.
        own_hosts: IP addresses under which this node is known to others.
        own_is_public: it announces a public address.
        report: called when the state of a bootstrap changes, with the operator's own text.
        succeeded: called after each dial that succeeded.
        counters: `dial_<result>`, `exchange_hints_*`.
        banned: who is not dialled, not even a bootstrap.
    """

    def __init__(
        self,
        host: IHost,
        *,
        bootstrap: Iterable[PeerAddress],
        remembered: Callable[[], list[PeerAddress]],
        own_hosts: Iterable[str],
        own_is_public: bool,
        peers_wanted: int,
        rng: random.Random,
        report: Report,
        succeeded: Callable[[PeerAddress], None],
        counters: Counter[str],
        banned: Callable[[ID], bool],
    ) -> None:
        self._host = host
        self._network: Swarm = host.get_network()
        self._own_id = str(host.get_id())
        self._own_nets = {net for own in own_hosts if (net := net_of(own)) is not None}
        self._own_is_public = own_is_public
        self._peers_wanted, self._rng, self._counters = peers_wanted, rng, counters
        self._remembered, self._report, self._on_success, self._banned = remembered, report, succeeded, banned
        self._known: dict[str, _Known] = {}
        self._listed: set[str] = set()
        self._hints = Hints()
        self._under_way: dict[str, PeerAddress] = {}  # by peer id
        self._changed = trio.Event()
        for address in bootstrap:
            self._keep(address, is_operators=True)
        self._remember()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                self._changed = trio.Event()
                for known in self._due():
                    nursery.start_soon(self._try_known, known)
                while (hint := self._next_hint()) is not None:
                    nursery.start_soon(self._try_hint, hint)
                with trio.move_on_after(self._seconds_to_next()):
                    await self._changed.wait()

    def connection_changed(self, peer_id: str, *, connected: bool) -> None:
        """A loss is answered with an immediate look round."""
        if not connected:
            for known in self._known.values():
                if known.address.peer_id == peer_id:
                    self._lost(known)
        self._changed.set()

    def _lost(self, known: _Known) -> None:
        now = trio.current_time()
        if now - known.dialled_at < LIFE_S_GOOD:
            known.num_failures += 1
            known.due_at = now + back_off_s(known.num_failures, self._rng)
        else:
            known.num_failures = 0
            known.due_at = now + self._rng.uniform(0.1, BACK_OFF_S_MIN)

    def tell(self, hint: PeerAddress, teller_host: str, teller: str, *, teller_dialled: bool = False) -> None:
        """An address that a peer named; `teller` is whose word it is (`hearsay.voice`)."""
        if hint.peer_id == self._own_id or hint.text in self._known:
            return
        if not acceptable(
            hint,
            teller_host,
            is_near=self.is_near,
            own_is_public=self._own_is_public,
            teller_dialled=teller_dialled,
        ):
            self._counters["exchange_hints_refused"] += 1
        elif self._hints.tell(hint, teller, trio.current_time(), is_near=self.is_near(hint.host)):
            self._changed.set()
        else:
            self._counters["exchange_hints_failed"] += 1

    def set_listed(self, addresses: Iterable[PeerAddress]) -> None:
        """The operator's list is this now, beside the addresses of the settings. Those no longer in it are dialled no more."""
        listed = {address.text: address for address in addresses}
        for text in self._listed - listed.keys():
            self._known.pop(text, None)
        for text, address in listed.items():
            if text in self._known and not self._known[text].is_operators:
                del self._known[text]
            if text not in self._known:
                self._listed.add(text)
                self._keep(address, is_operators=True)
        self._listed &= listed.keys()
        self._changed.set()

    def is_near(self, host: str) -> bool:
        net = net_of(host)
        if net is None:
            return False
        source = source_towards(host)
        return net in self._own_nets or (source is not None and net_of(plain(source)) == net)

    def is_wanting(self) -> bool:
        return self._num_dialled() < self._peers_wanted

    def bootstrap_states(self) -> dict[str, str]:
        """The last result of each bootstrap, by its address; `waiting` before the first."""
        return {k.address.text: self._state_of(k) for k in self._known.values() if k.is_operators}

    def _state_of(self, known: _Known) -> str:
        if self._banned(ID.from_string(known.address.peer_id)):
            return Dialled.BANNED.value
        if self._is_connected(known.address):
            return "connected"
        return known.last.value if known.last else "waiting"

    def _keep(self, address: PeerAddress, *, is_operators: bool) -> None:
        if address.peer_id != self._own_id and address.text not in self._known:
            self._known[address.text] = _Known(address, is_operators)
            self._changed.set()
        kept = [known.address for known in self._known.values() if not known.is_operators]
        for old in kept[: max(0, len(kept) - KEPT_MAX)]:
            del self._known[old.text]

    def _remember(self) -> None:
        """Addresses that worked before, but for those of a local network that we have left."""
        for address in self._remembered():
            if acceptable(address, address.host, is_near=self.is_near, own_is_public=False):
                self._keep(address, is_operators=False)

    # -- what next

    def _due(self) -> list[_Known]:
        now, due = trio.current_time(), []
        for known in self._known.values():
            address = known.address
            if known.due_at > now or not self._is_free(address):
                continue
            if known.is_operators or (self._num_left() > 0 and self._has_place(address)):
                self._under_way[address.peer_id] = address  # one dial a peer
                due.append(known)
        return due

    def _next_hint(self) -> PeerAddress | None:
        if self._num_left() <= 0:
            return None
        hint = self._hints.take(trio.current_time(), lambda one: self._is_free(one) and self._has_place(one))
        if hint is not None:
            self._under_way[hint.peer_id] = hint
        return hint

    def _num_left(self) -> int:
        """Dials of strangers' addresses that may begin now."""
        wanted = self._peers_wanted - self._num_dialled() - len(self._under_way)
        return min(wanted, DIALS_MAX - len(self._under_way))

    def _is_free(self, address: PeerAddress) -> bool:
        """Neither connected, nor being dialled, nor banned."""
        return not (
            address.peer_id in self._under_way
            or self._is_connected(address)
            or self._banned(ID.from_string(address.peer_id))
        )

    def _has_place(self, address: PeerAddress) -> bool:
        """Whether another peer of its net may be dialled; our own net has no bound, so that a laboratory meshes."""
        net = net_of(address.host)
        if net is None or self.is_near(address.host):
            return True
        hosts = [other.host for other in self._under_way.values()]
        hosts += [host for peer in self._dialled_peers() if (host := host_of_connection(self._network, peer))]
        return sum(net_of(host) == net for host in hosts) < DIALLED_PER_NET_MAX

    def _is_connected(self, address: PeerAddress) -> bool:
        return bool(self._network.get_connections(ID.from_string(address.peer_id)))

    def has_dialled(self, peer: ID) -> bool:
        """Whether one of our connections to this peer began with us."""
        return any(
            connection.direction is Direction.OUTBOUND for connection in self._network.get_connections(peer)
        )

    def _dialled_peers(self) -> list[ID]:
        """Peers that we dialled. Those that dialled us do not count: a stranger with many machines could be all of them."""
        return [peer for peer in self._network.connections if self.has_dialled(peer)]

    def _num_dialled(self) -> int:
        return len(self._dialled_peers())

    def _seconds_to_next(self) -> float:
        waiting = [
            known.due_at
            for known in self._known.values()
            if known.address.peer_id not in self._under_way and not self._is_connected(known.address)
        ]
        # The floor keeps an address that is due but not wanted now from spinning; changes wake the loop anyway.
        wait_s = min(waiting, default=math.inf) - trio.current_time()
        return float(min(max(wait_s, 0.25), BACK_OFF_S_MAX))

    # -- dials

    async def _dial(self, address: PeerAddress) -> Dialled:
        result = await dial(self._host, address)
        self._counters[f"dial_{result.value}"] += 1
        if result is Dialled.CONNECTED:
            self._on_success(address)
        return result

    async def _try_hint(self, hint: PeerAddress) -> None:
        connected = await self._dial(hint) is Dialled.CONNECTED
        del self._under_way[hint.peer_id]
        self._hints.ended(hint, connected=connected, now=trio.current_time())
        if connected:  # no longer hearsay
            self._keep(hint, is_operators=False)
            self._known[hint.text].dialled_at = trio.current_time()
            self._known[hint.text].due_at = trio.current_time() + BACK_OFF_S_MIN
        self._changed.set()

    async def _try_known(self, known: _Known) -> None:
        known.dialled_at = trio.current_time()
        result = await self._dial(known.address)
        del self._under_way[known.address.peer_id]
        if known.is_operators and result is not known.last:
            self._report(known.address.text, result)
        known.last = result
        if result is Dialled.CONNECTED:
            # Perhaps it has dropped us already (`_lost`).
            known.due_at = max(known.due_at, trio.current_time() + BACK_OFF_S_MIN)
        else:
            known.num_failures += 1
            known.due_at = trio.current_time() + back_off_s(known.num_failures, self._rng)
            if not known.is_operators and known.num_failures >= FAILURES_MAX:
                self._known.pop(known.address.text, None)
                if not self._known and not self._network.connections:  # cut off
                    self._remember()
        self._changed.set()


def back_off_s(num_failures: int, rng: random.Random) -> float:
    """Seconds to wait after so many failures in a row: doubling from 1 to 60, each cut by up to half at random."""
    longest = min(BACK_OFF_S_MIN * 2.0 ** min(num_failures - 1, 10), BACK_OFF_S_MAX)
    return float(longest * rng.uniform(0.5, 1.0))
