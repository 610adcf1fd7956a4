"""Places for inbound connections: who may come in, and who has to leave when all places are taken. Pure: time is passed in.

Places are earned. Who brought a message that was accepted keeps its place; of the others the one leaves whose network has the most
places, then whose machine has, then who is there the longest. A newcomer has some seconds in which nobody takes its place: enough
to learn of other peers. So whoever fills a public node with connections that give nothing makes way for its newcomers.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from swarmd.recent import Recent
from swarmd.swarm.nets import machine_of, net_of

# A newcomer keeps its place so long, whatever it gives.
GRACE_S = 5.0
# A machine that had to leave takes nobody else's place for so long: else two of them would push each other out without end.
EVICTED_S = 60.0
# A message that was accepted keeps its bringer's place for so long. A slow machine takes minutes for a round.
GIFT_HOLDS_S = 1800.0
_EVICTED_MAX = 1024


@dataclass(frozen=True)
class Guest:
    """Whose connection holds a place, and since when."""

    peer_id: str
    machine: str
    net: str
    since: float


@dataclass
class Places:
    """The places of one host. Connections are told apart by any hashable object.

    Args:
        inbound_max, pending_max: live connections and handshakes under way, in all.
        per_machine_max: of one machine, and `per_net_max` of one network. They count while half of the places are taken: a home, an
            office or a laboratory may have more while nobody else wants them.
        pending_per_machine_max: handshakes of one machine, at any time.
        gave_at: when a peer last brought a message that was accepted, by the clock of `now`.
    """

    inbound_max: int
    per_machine_max: int
    per_net_max: int
    pending_max: int
    pending_per_machine_max: int
    gave_at: Callable[[str], float] = lambda peer_id: -math.inf
    guests: dict[object, Guest] = field(default_factory=dict)
    pending: Counter[str] = field(default_factory=Counter)
    _evicted: Recent[str, float] = field(default_factory=lambda: Recent(_EVICTED_MAX))

    def refusal(self, host: str, now: float) -> str | None:
        """Why a connection from this host is turned away unseen: the counter's name, or None if it may begin its handshake."""
        machine, net = where(host)
        if self.pending.total() >= self.pending_max:
            return "inbound_refused_full"
        if self.pending[machine] >= self.pending_per_machine_max:
            return "inbound_refused_ip"
        if 2 * len(self.guests) >= self.inbound_max:
            of_machine, of_net = self._num(machine=machine), self._num(net=net)
            if of_machine >= self.per_machine_max or of_net >= self.per_net_max:
                return "inbound_refused_ip"
        if len(self.guests) >= self.inbound_max and self.to_evict(host, now) is None:
            return "inbound_refused_full"
        return None

    def to_evict(self, host: str, now: float) -> object | None:
        """The connection that makes way for one from this host; None where none has to."""
        machine, net = where(host)
        if now - self._evicted.get(machine, -math.inf) < EVICTED_S:
            return None
        nets = Counter(guest.net for guest in self.guests.values())
        machines = Counter(guest.machine for guest in self.guests.values())
        idle = [
            (nets[guest.net], machines[guest.machine], now - guest.since, key)
            for key, guest in self.guests.items()
            if guest.since <= now - GRACE_S and self.gave_at(guest.peer_id) <= now - GIFT_HOLDS_S
        ]
        if not idle:
            return None
        of_net, _, _, key = max(idle, key=lambda one: one[:3])
        return key if of_net > nets[net] else None

    def evict(self, key: object, now: float) -> None:
        """This connection is being closed for somebody else."""
        self._evicted[self.guests.pop(key).machine] = now

    def enter(self, key: object, peer_id: str, host: str, now: float) -> None:
        machine, net = where(host)
        self.guests[key] = Guest(peer_id, machine, net, now)

    def leave(self, key: object) -> None:
        """The connection has ended; one that was evicted may have left before."""
        self.guests.pop(key, None)

    def begin(self, host: str) -> None:
        """A handshake begins."""
        self.pending[where(host)[0]] += 1

    def end(self, host: str) -> None:
        """It has ended, whatever came of it."""
        machine = where(host)[0]
        self.pending[machine] -= 1
        if self.pending[machine] <= 0:  # addresses of the whole internet would pile up otherwise
            del self.pending[machine]

    def _num(self, *, machine: str | None = None, net: str | None = None) -> int:
        return sum(
            machine in (None, guest.machine) and net in (None, guest.net) for guest in self.guests.values()
        )


def where(host: str) -> tuple[str, str]:
    """The machine and the network of a host; all of loopback is one of each."""
    machine, net = machine_of(host), net_of(host)
    return machine, net.prefix if net else machine
