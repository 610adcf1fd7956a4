"""Standings: what this node has seen of each author, who is proven, and who is banned and for how long.

An author is a 32-byte public key, the same key as its peer id (`peer_key`). Pure: `now_s` is Unix time by this node's clock.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field, StrictBool

from swarmd.recent import Recent
from swarmd.trust.evidence import POINTS, Evidence
from swarmd.trust.offences import OFFENDERS_MAX, Amount, Count, Offences

# Authors remembered: 1 MB on disk. New identities cost a stranger nothing, so both tables are bounded. In a swarm of more active
# authors some of them start over. Known and new authors have a table each, so newcomers cannot push out known authors, and a full
# table of known authors leaves newcomers the time to become known.
KNOWN_MAX, NEW_MAX = 3072, 1024
# An author counts as left out once 8 of its rollouts were used and updates left more than half of them out. Both counts are halved
# past 64 uses, so that a policy that comes to speak like the author soon takes the author in again.
USED_MIN, USED_MAX = 8, 64
REASON_CHARS_MAX = 200
# Bans by the operator, who may ban with a script.
OPERATOR_BANS_MAX = 4096


@dataclass(slots=True)
class Standing:
    """One author.

    `num_scored` counts rollouts that were scored here without a finding of guard or sandbox, `proof` is what they prove together
    (`swarmd.trust.proof`), `num_informative` counts those of them with unequal rewards, `num_duplicate` rollouts that came
    before, `num_copied` completions that another author signed before.
    `num_used` counts its rollouts that were drawn for updates lately, `num_left_out` those of them that the updates left out.
    """

    num_scored: Count = 0
    proof: Amount = 0.0
    num_informative: Count = 0
    num_duplicate: Count = 0
    num_copied: Count = 0
    num_used: Count = 0
    num_left_out: Count = 0


@dataclass(frozen=True, slots=True)
class Ban:
    """`until_s` None: until it is lifted. Bans for points have the last evidence as their reason."""

    since_s: Amount
    until_s: Amount | None
    by_operator: StrictBool
    reason: Annotated[str, Field(strict=True, max_length=REASON_CHARS_MAX)]

    def holds(self, now_s: float) -> bool:
        """Whether it has not run out."""
        return self.until_s is None or now_s < self.until_s


@dataclass
class Standings:
    """Standings by author, offences by peer, and bans. All three are bounded.

    Args:
        proven_rollouts: how much proof makes an author a proven one; an own rollout would prove 1.
        ban_points: a peer with so many points is banned; None leaves bans to the operator.

    `known` holds the authors with so much proof, `new` all others, both from the longest unseen to the last seen.
    `changed` says that something should be on disk soon; the owner clears it.
    """

    proven_rollouts: int
    ban_points: float | None = None
    offences: Offences = field(default_factory=Offences)
    known: Recent[bytes, Standing] = field(default_factory=lambda: Recent(KNOWN_MAX))
    new: Recent[bytes, Standing] = field(default_factory=lambda: Recent(NEW_MAX))
    bans: dict[bytes, Ban] = field(default_factory=dict)
    changed: bool = False

    def of(self, author: bytes) -> Standing | None:
        return self.known.get(author) or self.new.get(author)

    def authors(self) -> Iterator[tuple[bytes, Standing]]:
        """Everybody, in an order in which `put` makes the same tables."""
        yield from self.known.items()
        yield from self.new.items()

    @property
    def num_authors(self) -> int:
        return len(self.known) + len(self.new)

    @property
    def num_proven(self) -> int:
        return sum(not _is_left_out(standing) for standing in self.known.values())

    def put(self, author: bytes, standing: Standing) -> None:
        """Remember as the last seen; the longest unseen of its table is forgotten when that is full."""
        self.known.pop(author, None)
        self.new.pop(author, None)
        table = self.known if standing.proof >= self.proven_rollouts else self.new
        table[author] = standing

    def proven(self, author: bytes) -> bool:
        """Whether this author is more than a new identity, which costs nothing: enough of its rollouts were scored here.

        This policy must also be able to use them. Rollouts that the updates leave out take other authors' places in every draw.
        """
        standing = self.known.get(author)
        return standing is not None and not _is_left_out(standing)

    def left_out(self, author: bytes) -> bool:
        """Whether the updates leave out most of what this author, proven or not, gives."""
        standing = self.of(author)
        return standing is not None and _is_left_out(standing)

    def banned(self, author: bytes, now_s: float) -> bool:
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
        proof: float | None = None,
        num_informative: int = 0,
        num_duplicate: int = 0,
        num_copied: int = 0,
    ) -> None:
        """A batch of this author was scored; `num_rollouts` without a finding and stored for the first time.

        `proof` None: each of them proves 1.
        """
        standing = self.of(author) or Standing()
        standing.num_scored += num_rollouts
        standing.proof += num_rollouts if proof is None else proof
        standing.num_informative += num_informative
        standing.num_duplicate += num_duplicate
        standing.num_copied += num_copied
        self.put(author, standing)

    def used(self, author: bytes, *, num_used: int, num_left_out: int) -> None:
        """Rollouts of this author were drawn for an update, and so many of them left out of it."""
        standing = self.of(author) or Standing()
        standing.num_used += num_used
        standing.num_left_out += num_left_out
        while standing.num_used > USED_MAX:
            standing.num_used //= 2
            standing.num_left_out //= 2
        self.put(author, standing)

    def accuse(self, peer: bytes, evidence: Evidence, now_s: float, num: int = 1) -> Ban | None:
        """Count evidence `num` times. Returns the ban, where the points now suffice for a ban."""
        points = self.offences.add(peer, num * POINTS[evidence], now_s)
        if self.ban_points is None or points < self.ban_points or self.banned(peer, now_s):
            return None
        ban = Ban(now_s, self.offences.ban(peer, now_s), by_operator=False, reason=evidence)
        self._put_ban(peer, ban)
        return ban

    def ban(self, peer: bytes, now_s: float, *, for_s: float | None, reason: str) -> Ban:
        """Ban for the operator, in place of a ban that holds.

        Raises:
            ValueError: there are too many operator bans.
        """
        if sum(ban.by_operator for ban in self.bans.values()) >= OPERATOR_BANS_MAX:
            raise ValueError(f"{OPERATOR_BANS_MAX} bans are the most; lift some")
        until_s = None if for_s is None else now_s + for_s
        ban = Ban(now_s, until_s, by_operator=True, reason=reason[:REASON_CHARS_MAX])
        self._put_ban(peer, ban)
        return ban

    def unban(self, peer: bytes, now_s: float) -> bool:
        """Lift any ban, with the points and earlier bans that led to it; whether there was one."""
        ban = self.bans.pop(peer, None)
        self.offences.forgive(peer)
        self.changed = True
        return ban is not None and ban.holds(now_s)

    def _put_ban(self, peer: bytes, ban: Ban) -> None:
        self.bans.pop(peer, None)
        self.bans[peer] = ban
        self.changed = True
        if len(self.bans) > OPERATOR_BANS_MAX + OFFENDERS_MAX:
            # There is one: operators have no more than their share of these.
            del self.bans[next(name for name, other in self.bans.items() if not other.by_operator)]


def _is_left_out(standing: Standing) -> bool:
    return standing.num_used >= USED_MIN and 2 * standing.num_left_out > standing.num_used
