"""Hints: addresses that peers told us, and which of them may be dialled now. Pure: the caller passes the time in.

A hint is dialled once. A failed dial counts for an hour against the hint, against its teller, and against the machine and the net
that it names, whoever told it. A lie therefore costs a third party a few connections of ours, and no number of liars makes them
many. A dial that succeeds costs nothing. Tellers take turns, and each holds few of the places, so that nobody talks over the
others.
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from swarmd.swarm.addresses import PeerAddress
from swarmd.swarm.nets import machine_of, net_of

WINDOW_S = 3600.0
# Dials that failed within the window, with those under way. A machine's three are all that one node sends a victim in an hour;
# honest peers behind one home router are seldom more. One teller alone can spend neither a machine's nor a net's, and so hide it.
FAILURES_MAX = {
    "hint": 1,
    "machine": 3,
    "machine by teller": 2,
    "net": 12,
    "net by teller": 6,
    "teller": 32,
    "all": 256,
}
# Hints that wait, of all tellers and of one; eight talkative tellers fill the table, a ninth takes places from them.
WAITING_MAX, WAITING_PER_TELLER_MAX = 128, 16
# Peers come and go; what nobody wanted to dial for so long is asked for again.
WAITING_S_MAX = 600.0

_Key = tuple[str, str]


@dataclass
class _Hint:
    address: PeerAddress
    is_near: bool
    told_at: float


@dataclass
class Hints:
    """Hints by teller, and the failures of the last hour."""

    _waiting: dict[str, dict[str, _Hint]] = field(default_factory=dict)  # by teller, the next in turn first
    _under_way: dict[str, tuple[_Key, ...]] = field(default_factory=dict)
    _begun: Counter[_Key] = field(default_factory=Counter)  # what is under way, by key
    _failed: deque[tuple[float, tuple[_Key, ...]]] = field(default_factory=deque)
    _failures: Counter[_Key] = field(default_factory=Counter)  # what failed within the window, by key

    @property
    def num_waiting(self) -> int:
        """Hints that wait, by teller: one that two tellers told is two."""
        return sum(map(len, self._waiting.values()))

    def tell(self, address: PeerAddress, teller: str, now: float, *, is_near: bool = False) -> bool:
        """Note a hint; false when too much failed of what it names or of its teller's word, or the teller has no place left.

        Args:
            is_near: it is in our own network, where many peers on one machine are usual: dials under way are not counted, so that
                a laboratory meshes at once. A lie there may cost as many dials as begin together.
        """
        self._forget(now)
        if self._is_spent(_keys(address, teller)):
            return False
        own = self._waiting.get(teller, {})
        if _name(address) in own:
            own[_name(address)].told_at = now
            return True
        if len(own) >= WAITING_PER_TELLER_MAX or not self._make_room(len(own)):
            return False
        self._waiting.setdefault(teller, own)[_name(address)] = _Hint(address, is_near, now)
        return True

    def take(self, now: float, wanted: Callable[[PeerAddress], bool]) -> PeerAddress | None:
        """The next hint that may be dialled and is wanted; it is under way until `ended` says how it went."""
        self._forget(now)
        for teller, hints in list(self._waiting.items()):
            for name, hint in list(hints.items()):
                keys = _keys(hint.address, teller)
                if self._is_spent(keys):
                    del hints[name]
                elif self._has_room(keys[:1] if hint.is_near else keys) and wanted(hint.address):
                    self._begin(hint.address, teller, keys)
                    return hint.address
        return None

    def ended(self, address: PeerAddress, *, connected: bool, now: float) -> None:
        keys = self._under_way.pop(_name(address))
        _subtract(self._begun, keys)
        if not connected:
            self._failed.append((now, keys))
            self._failures.update(keys)

    def _begin(self, address: PeerAddress, teller: str, keys: tuple[_Key, ...]) -> None:
        for hints in self._waiting.values():
            hints.pop(_name(address), None)
        self._waiting[teller] = self._waiting.pop(teller)  # the others' turn
        self._under_way[_name(address)] = keys
        self._begun.update(keys)

    def _is_spent(self, keys: tuple[_Key, ...]) -> bool:
        return any(self._failures[key] >= FAILURES_MAX[key[0]] for key in keys)

    def _has_room(self, keys: tuple[_Key, ...]) -> bool:
        """Whether there is room even if every dial under way fails."""
        return all(self._failures[key] + self._begun[key] < FAILURES_MAX[key[0]] for key in keys)

    def _make_room(self, num_own: int) -> bool:
        """Whether there is a place for a teller that holds so many; the teller with most of them may lose its newest."""
        if self.num_waiting < WAITING_MAX:
            return True
        most = max(self._waiting.values(), key=len)
        if len(most) <= num_own + 1:
            return False
        most.popitem()
        return True

    def _forget(self, now: float) -> None:
        while self._failed and self._failed[0][0] <= now - WINDOW_S:
            _subtract(self._failures, self._failed.popleft()[1])
        for teller, hints in list(self._waiting.items()):
            for name in [name for name, hint in hints.items() if hint.told_at <= now - WAITING_S_MAX]:
                del hints[name]
            if not hints:
                del self._waiting[teller]


def _subtract(counts: Counter[_Key], keys: tuple[_Key, ...]) -> None:
    for key in keys:
        counts[key] -= 1
        if not counts[key]:
            del counts[key]


def _keys(address: PeerAddress, teller: str) -> tuple[_Key, ...]:
    machine, found = machine_of(address.host), net_of(address.host)
    net = found.prefix if found else machine
    return (
        ("hint", _name(address)),
        ("machine", machine),
        ("machine by teller", f"{teller} {machine}"),
        ("net", net),
        ("net by teller", f"{teller} {net}"),
        ("teller", teller),
        ("all", ""),
    )


def _name(address: PeerAddress) -> str:
    """The same for every spelling of an address."""
    return f"{address.host} {address.port} {address.peer_id}"
