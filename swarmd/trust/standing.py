"""Standings: what this node has seen of each author, who is proven, and who is banned and for how long.

An author is a 32-byte public key, the same key as its peer id (`peer_key`). Pure: `now_s` is Unix time by this node's clock.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from swarmd.trust.evidence import POINTS, Evidence

# Authors remembered, and as many bans: 1 MB on disk. New identities cost a stranger nothing, so the table must be bounded; a swarm
# of more than four thousand active authors would see some of them start over.
AUTHORS_MAX = 4096
# What the first ban lasts; each further one twice as long, up to a day. An honest node that was banned by a bug of ours is back
# within minutes, and after ten in a row an attacker has a day off.
BAN_S, BAN_S_MAX = 300.0, 86_400.0
# An author is foreign here when more than half of what was last used of it was left out of the update, once so many were used. What
# is remembered halves at the second number, so that a policy that comes to speak like the author soon takes it in again.
USED_MIN, USED_MAX = 8, 64
# One earlier ban is forgotten for each day without one.
BAN_FORGOTTEN_S = 86_400.0
REASON_CHARS_MAX = 200
# Operator bans come from a person or a script of theirs.
OPERATOR_BANS_MAX = 4096


@dataclass(slots=True)
class Standing:
    """One author.

    `num_scored` counts rollouts that were scored here without a finding of guard or sandbox, `num_informative` those of them with
    unequal rewards, `num_duplicate` rollouts that came before, `num_copied` completions that another author signed before.
    `num_used` counts its rollouts that were drawn for updates lately, `num_left_out` those of them that the updates left out.
    `points` are as of `points_at_s`; `num_bans` is how often it was banned for them, the last time until `banned_until_s`.
    """

    num_scored: int = 0
    num_informative: int = 0
    num_duplicate: int = 0
    num_copied: int = 0
    num_used: int = 0
    num_left_out: int = 0
    points: float = 0.0
    points_at_s: float = 0.0
    num_bans: int = 0
    banned_until_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Ban:
    """`until_s` None: until it is lifted. Bans for points have the last evidence as their reason."""

    since_s: float
    until_s: float | None
    by_operator: bool
    reason: str

    def holds(self, now_s: float) -> bool:
        """Whether it has not run out."""
        return self.until_s is None or now_s < self.until_s


@dataclass
class Standings:
    """Standings by author, bounded.

    Args:
        proven_rollouts: how many scored rollouts make an author a proven one.
        ban_points: who has so many points is banned; None bans nobody but for the operator.
        half_life_s: points halve in this time.

    `changed` is set by whatever should be on disk soon, and left to the owner to clear.
    """

    proven_rollouts: int
    ban_points: float | None = None
    half_life_s: float = 600.0
    authors_max: int = AUTHORS_MAX
    by_author: OrderedDict[bytes, Standing] = field(default_factory=OrderedDict)
    bans: dict[bytes, Ban] = field(default_factory=dict)
    changed: bool = False

    def of(self, author: bytes) -> Standing | None:
        """What is known of an author."""
        return self.by_author.get(author)

    def proven(self, author: bytes) -> bool:
        """Whether enough rollouts of this author were scored here for it to be more than a new identity, which costs nothing.

        And whether this policy can use them: who writes what it would never write takes the place of others in every draw.
        """
        standing = self.by_author.get(author)
        return (
            standing is not None and standing.num_scored >= self.proven_rollouts and not _is_foreign(standing)
        )

    def banned(self, author: bytes, now_s: float) -> bool:
        """Whether a ban holds."""
        ban = self.bans.get(author)
        return ban is not None and ban.holds(now_s)

    def banned_now(self, now_s: float) -> list[bytes]:
        """Everybody who is banned; bans that have run out are dropped."""
        self.bans = {author: ban for author, ban in self.bans.items() if ban.holds(now_s)}
        return list(self.bans)

    def scored(
        self,
        author: bytes,
        *,
        num_rollouts: int,
        num_informative: int = 0,
        num_duplicate: int = 0,
        num_copied: int = 0,
    ) -> None:
        """A batch of this author was scored; `num_rollouts` without a finding and stored for the first time."""
        standing = self._touch(author)
        standing.num_scored += num_rollouts
        standing.num_informative += num_informative
        standing.num_duplicate += num_duplicate
        standing.num_copied += num_copied

    def used(self, author: bytes, *, num_used: int, num_left_out: int) -> None:
        """Rollouts of this author were drawn for an update, and so many of them left out of it."""
        standing = self._touch(author)
        standing.num_used += num_used
        standing.num_left_out += num_left_out
        while standing.num_used > USED_MAX:
            standing.num_used //= 2
            standing.num_left_out //= 2

    def points(self, author: bytes, now_s: float) -> float:
        """Points left at this moment."""
        standing = self.by_author.get(author)
        return 0.0 if standing is None else self._left(standing, now_s)

    def accuse(self, author: bytes, evidence: Evidence, now_s: float, num: int = 1) -> Ban | None:
        """Count evidence `num` times; the ban, if that was too much."""
        standing = self._touch(author)
        standing.points = self._left(standing, now_s) + num * POINTS[evidence]
        standing.points_at_s = now_s
        if self.ban_points is None or standing.points < self.ban_points or self.banned(author, now_s):
            return None
        num_before = _remembered(standing, now_s)
        ban = Ban(now_s, now_s + ban_length_s(num_before), by_operator=False, reason=evidence)
        standing.points, standing.num_bans, standing.banned_until_s = 0.0, num_before + 1, ban.until_s or 0.0
        self._put(author, ban)
        return ban

    def ban(self, author: bytes, now_s: float, *, for_s: float | None, reason: str) -> Ban:
        """Ban for the operator, in place of a ban that holds.

        Raises:
            ValueError: there are too many operator bans.
        """
        if sum(ban.by_operator for ban in self.bans.values()) >= OPERATOR_BANS_MAX:
            raise ValueError(f"{OPERATOR_BANS_MAX} bans are the most; lift some")
        until_s = None if for_s is None else now_s + for_s
        ban = Ban(now_s, until_s, by_operator=True, reason=reason[:REASON_CHARS_MAX])
        self._put(author, ban)
        return ban

    def unban(self, author: bytes, now_s: float) -> bool:
        """Lift any ban, with the points and earlier bans that led to it; whether there was one."""
        ban = self.bans.pop(author, None)
        if (standing := self.by_author.get(author)) is not None:
            standing.points, standing.num_bans = 0.0, 0
        self.changed = True
        return ban is not None and ban.holds(now_s)

    def _left(self, standing: Standing, now_s: float) -> float:
        elapsed_s = max(0.0, now_s - standing.points_at_s)
        return float(standing.points * 0.5 ** (elapsed_s / self.half_life_s))

    def _put(self, author: bytes, ban: Ban) -> None:
        self.bans.pop(author, None)
        for_points = [name for name, other in self.bans.items() if not other.by_operator]
        if len(for_points) >= self.authors_max:
            del self.bans[for_points[0]]
        self.bans[author] = ban
        self.changed = True

    def _touch(self, author: bytes) -> Standing:
        """The author's standing, the latest of all from now on."""
        standing = self.by_author.pop(author, None) or Standing()
        self.by_author[author] = standing
        if len(self.by_author) > self.authors_max:
            # The new and blameless are forgotten first: a flood of identities pushes out itself.
            names = (
                name
                for name, other in self.by_author.items()
                if other.num_scored < self.proven_rollouts and not other.num_bans and name != author
            )
            del self.by_author[next(names, next(iter(self.by_author)))]
        return standing


def ban_length_s(num_before: int) -> float:
    """How long the next ban lasts after so many."""
    return float(min(BAN_S * 2.0 ** min(num_before, 20), BAN_S_MAX))


def _is_foreign(standing: Standing) -> bool:
    return standing.num_used >= USED_MIN and 2 * standing.num_left_out > standing.num_used


def _remembered(standing: Standing, now_s: float) -> int:
    """Earlier bans that still count."""
    days = int(max(0.0, now_s - standing.banned_until_s) // BAN_FORGOTTEN_S)
    return max(0, standing.num_bans - days)
