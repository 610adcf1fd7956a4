"""Offences: the points that evidence gives a peer, which halve with time, and how often they got it banned.

Offences have a table of their own, so that a flood of offenders pushes out offenders and no author. Pure: `now_s` is Unix time.
"""

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from swarmd.recent import Recent

# Numbers that a file of standings may hold (`standings_file`).
Count = Annotated[int, Field(strict=True, ge=0, lt=2**53)]
Amount = Annotated[float, Field(strict=True, ge=0, lt=2**53)]

# Peers remembered: those with the newest offence. A peer that wants to be forgotten needs so many other offenders, and each of
# them costs a handshake, which is more than a new identity costs.
OFFENDERS_MAX = 4096
# The first ban lasts five minutes, each further one twice as long, up to a day. An honest node that a bug of ours banned is back
# within minutes. An attacker is banned for a day after ten bans in a row.
BAN_S, BAN_S_MAX = 300.0, 86_400.0
# The table forgets one earlier ban for each day without a ban.
BAN_FORGOTTEN_S = 86_400.0


@dataclass(slots=True)
class Offence:
    """One peer: `points` are as of `points_at_s`; `num_bans` is how often it was banned, the last time until `banned_until_s`."""

    points: Amount = 0.0
    points_at_s: Amount = 0.0
    num_bans: Count = 0
    banned_until_s: Amount = 0.0


@dataclass
class Offences:
    """Offences by peer, bounded; points halve in `half_life_s`."""

    half_life_s: float = 600.0
    by_peer: Recent[bytes, Offence] = field(default_factory=lambda: Recent(OFFENDERS_MAX))

    def points(self, peer: bytes, now_s: float) -> float:
        offence = self.by_peer.get(peer)
        return 0.0 if offence is None else self._left(offence, now_s)

    def add(self, peer: bytes, points: float, now_s: float) -> float:
        """Give points; how many it has now."""
        offence = self.by_peer.get(peer) or Offence()
        self.by_peer[peer] = offence
        offence.points = self._left(offence, now_s) + points
        offence.points_at_s = now_s
        return offence.points

    def ban(self, peer: bytes, now_s: float) -> float:
        """Take the points for a ban; when it ends."""
        offence = self.by_peer[peer]
        num_before = _remembered(offence, now_s)
        offence.points, offence.num_bans = 0.0, num_before + 1
        offence.banned_until_s = now_s + ban_length_s(num_before)
        return offence.banned_until_s

    def forgive(self, peer: bytes) -> None:
        self.by_peer.pop(peer, None)

    def _left(self, offence: Offence, now_s: float) -> float:
        elapsed_s = max(0.0, now_s - offence.points_at_s)
        return float(offence.points * 0.5 ** (elapsed_s / self.half_life_s))


def ban_length_s(num_before: int) -> float:
    return float(min(BAN_S * 2.0 ** min(num_before, 20), BAN_S_MAX))


def _remembered(offence: Offence, now_s: float) -> int:
    """Earlier bans that still count."""
    days = int(max(0.0, now_s - offence.banned_until_s) // BAN_FORGOTTEN_S)
    return max(0, offence.num_bans - days)
