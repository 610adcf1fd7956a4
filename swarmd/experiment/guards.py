"""The guards against strangers in an experiment: switched off, or as every node has them, so that their cost can be measured.

Nobody in an experiment is a stranger, and what was published must repeat: presets switch the guards off. The arm `4/4 guarded`
switches them on again.
"""

from operator import attrgetter

from swarmd.config import Config

NO_GUARDS = {
    "update.external_logp_min": "off",
    "update.external_weight_max": "0",
    "update.external_share_max": "1",
    "trust.unproven_share_max": "1",
    "trust.author_parts_max": "0",
    "trust.quotas": "off",
    "trust.canary": "off",
    "experience.reward_spread_min": "0",
}
# Quotas count CPU time, which no simulation repeats. They limit what is scored, and an honest node's share is far below them.
_NEVER = frozenset({"trust.quotas"})


def guards_of_a_node() -> dict[str, str]:
    """The default of every setting that `NO_GUARDS` changes, as text; quotas stay off."""
    defaults = Config()
    return {key: str(attrgetter(key)(defaults)) for key in sorted(NO_GUARDS.keys() - _NEVER)}
