"""Trust: everything a node keeps of authors, in one place for the loops that share it."""

from dataclasses import dataclass, field

from swarmd.trust.copies import Copies
from swarmd.trust.quotas import Quotas
from swarmd.trust.standing import Standings


@dataclass
class Trust:
    """Standings are on disk; buckets and texts are forgotten when the node ends."""

    standings: Standings
    quotas: Quotas
    copies: Copies = field(default_factory=Copies)
