"""How this node looks from outside: what peers beyond its own network say of it. Pure: the caller passes the time in."""

from collections import Counter

from swarmd.clients.network import Outside
from swarmd.recent import Recent
from swarmd.swarm.whereabouts import KNOCK_HOLDS_S

_VOICES_MAX = 64
_HOSTS_MAX = 4
# What a peer said holds so long after it said it.
SAID_HOLDS_S = 1800.0


class View:
    """What peers outside say of how they see us. One voice a net: names cost nothing, and a lie changes what is shown, no more."""

    def __init__(self) -> None:
        self._said: Recent[str, tuple[str, bool | None, float]] = Recent(_VOICES_MAX)

    def note(self, voice: str, host: str, reached: bool | None, now: float) -> None:
        before = self._said.get(voice)
        if reached is None and before is not None and before[0] == host:
            reached, now = before[1], before[2]
        self._said[voice] = (host, reached, now)

    def wants(self, now: float) -> bool:
        """Whether somebody should be asked: nobody has tried within the last minutes."""
        return not any(
            reached is not None and at > now - KNOCK_HOLDS_S for _, reached, at in self._said.values()
        )

    def outside(self, now: float) -> Outside:
        said = [(host, reached) for host, reached, at in self._said.values() if at > now - SAID_HOLDS_S]
        tried = Counter(reached for _, reached in said if reached is not None)
        reachable = tried[True] >= tried[False] if tried else None
        hosts = tuple(host for host, _ in Counter(host for host, _ in said).most_common(_HOSTS_MAX))
        return Outside(reachable, hosts, tried[True], tried[False])
