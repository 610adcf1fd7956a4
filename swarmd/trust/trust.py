"""Trust: everything a node keeps of authors, in one place for the loops that share it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from swarmd.trust.copies import Copies
from swarmd.trust.proof import OwnWork
from swarmd.trust.quotas import Quotas
from swarmd.trust.standing import Standings


@dataclass
class Trust:
    """Standings are on disk; everything else begins anew with the process.

    `own_work` holds others against this node's own rollouts.
    """

    standings: Standings
    quotas: Quotas
    copies: Copies = field(default_factory=Copies)
    own_work: OwnWork = field(default_factory=OwnWork)

    def note_use(self, used: Sequence[bytes], left_out: Sequence[bytes]) -> None:
        """The authors of the rollouts that were drawn for an update, and of those that it left out, one entry each."""
        num_left_out = Counter(left_out)
        for author, num_used in Counter(used).items():
            self.standings.used(author, num_used=num_used, num_left_out=num_left_out[author])
